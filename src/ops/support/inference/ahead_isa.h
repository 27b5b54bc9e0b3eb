// Included inside an unnamed namespace under a target.

/// Asks early for the weights that come after a tile's, a part with each step of the tile: with rows that are shorter than a page
/// the processor's own prefetching, which follows each of the rows, is late at every row's end. What is far ahead would be gone again
/// from the first-level cache when it is wanted, so it waits in the second one.
class Ahead {
 public:
  /// Of a tile of `bytes` at `weights`, which are gone through in steps of `step_bytes`; asks for what is `nearest` or more away.
  Ahead(const void* weights, std::int64_t bytes, std::int64_t step_bytes, std::int64_t nearest = 4096)
      : step_(step_bytes), far_((bytes > nearest ? bytes : nearest) > farthest_first_level) {
    at_ = static_cast<const char*>(weights) + (bytes > nearest ? bytes : nearest);
  }
  void step() {
    if (far_)
      for (std::int64_t i = 0; i < step_; i += 64) __builtin_prefetch(at_ + i, 0, 2);
    else
      for (std::int64_t i = 0; i < step_; i += 64) __builtin_prefetch(at_ + i, 0, 3);
    at_ += step_;
  }

 private:
  static constexpr std::int64_t farthest_first_level = 6144;
  const char* at_;
  std::int64_t step_;
  bool far_;
};

/// The scales of the tile after the next one: few for each tile, so the processor's prefetching finds no stream.
inline void scales_ahead(const float* tile, std::int64_t scales) {
  const char* const at = reinterpret_cast<const char*>(tile + 2 * scales);
  for (std::int64_t i = 0; i < scales * 4; i += 64) __builtin_prefetch(at + i, 0, 3);
}

inline std::int64_t rounded(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }
