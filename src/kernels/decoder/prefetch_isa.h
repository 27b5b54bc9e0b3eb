// Prefetches the weights that a matrix product reads next.
#if defined(ANYACCEL_DECODER_PREFETCH_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_PREFETCH_ISA_H)
#undef ANYACCEL_DECODER_PREFETCH_ISA_H
#else
#define ANYACCEL_DECODER_PREFETCH_ISA_H
#endif

#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

/// Prefetches the weights of the next tile, one part with each step of the current tile. The
/// hardware prefetcher follows single rows, so it is late at the end of each row if rows are
/// shorter than a page.
///
/// Weights are prefetched into the L2 cache. The L1 cache allows too few outstanding requests to
/// hide the memory latency, and would evict lines before they are used. If a step does so much
/// computation per byte that even the L2 cache is too slow, `near` also prefetches from the L2
/// cache into the L1 cache.
template <bool near = false>
class Prefetcher {
 public:
  /// A tile has `bytes` bytes at `weights` and is read in steps of `step_bytes`.
  Prefetcher(const void* weights, std::int64_t bytes, std::int64_t step_bytes)
      : far_(static_cast<const char*>(weights) + (bytes > far ? bytes : far)),
        near_(near && bytes <= first_level ? static_cast<const char*>(weights) + first_level
                                           : nullptr),
        step_(step_bytes) {}
  void step() {
    for (std::int64_t i = 0; i < step_; i += 64) __builtin_prefetch(far_ + i, 0, 2);
    far_ += step_;
    // In a long tile, the two prefetch addresses would be close together, and all prefetches into
    // the L1 cache would wait for memory.
    if (!near || !near_) return;
    for (std::int64_t i = 0; i < step_; i += 64) __builtin_prefetch(near_ + i, 0, 3);
    near_ += step_;
  }

 private:
  static constexpr std::int64_t far = 8192, first_level = 4096;
  const char *far_, *near_;
  std::int64_t step_;
};

/// Prefetches the scales of the tile after the next one. The scales of a tile are too few for the
/// hardware prefetcher to detect a stream.
inline void scales_ahead(const float* tile, std::int64_t scales) {
  const char* const at = reinterpret_cast<const char*>(tile + 2 * scales);
  for (std::int64_t i = 0; i < scales * 4; i += 64) __builtin_prefetch(at + i, 0, 3);
}

inline std::int64_t rounded(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace
ANYACCEL_ISA_END
#endif
