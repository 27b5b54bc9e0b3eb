// Included inside an unnamed namespace under a target.

/// Asks early for the weights that come after a tile's, a part with each step of the tile: with rows that are shorter than a page
/// the processor's own prefetching, which follows each of the rows, is late at every row's end. What comes from memory waits in the
/// second-level cache: it takes longer than the few requests of the first-level cache could bridge, and what is far ahead would be gone
/// again from there. Where so much is computed with each byte that the second-level cache is too slow as well, `near` asks once more.
template <bool near = false>
class Prefetcher {
 public:
  /// Of a tile of `bytes` at `weights`, which are gone through in steps of `step_bytes`.
  Prefetcher(const void* weights, std::int64_t bytes, std::int64_t step_bytes)
      : far_(static_cast<const char*>(weights) + (bytes > far ? bytes : far)),
        near_(near && bytes <= first_level ? static_cast<const char*>(weights) + first_level : nullptr),
        step_(step_bytes) {}
  void step() {
    for (std::int64_t i = 0; i < step_; i += 64) __builtin_prefetch(far_ + i, 0, 2);
    far_ += step_;
    // Of a long tile both would be the same place, or nearly, and the first-level cache's few requests all wait for memory.
    if (!near || !near_) return;
    for (std::int64_t i = 0; i < step_; i += 64) __builtin_prefetch(near_ + i, 0, 3);
    near_ += step_;
  }

 private:
  static constexpr std::int64_t far = 8192, first_level = 4096;
  const char *far_, *near_;
  std::int64_t step_;
};

/// The scales of the tile after the next one: few for each tile, so the processor's prefetching finds no stream.
inline void scales_ahead(const float* tile, std::int64_t scales) {
  const char* const at = reinterpret_cast<const char*>(tile + 2 * scales);
  for (std::int64_t i = 0; i < scales * 4; i += 64) __builtin_prefetch(at + i, 0, 3);
}

inline std::int64_t rounded(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }
