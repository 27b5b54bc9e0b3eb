// Loops over row tiles whose sizes are compile-time constants.
#if defined(ANYACCEL_DECODER_PANEL_TILES_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_PANEL_TILES_ISA_H)
#undef ANYACCEL_DECODER_PANEL_TILES_ISA_H
#else
#define ANYACCEL_DECODER_PANEL_TILES_ISA_H
#endif

#include "kernels/decoder/panels.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

template <int n>
struct Count {
  static constexpr int value = n;
};

template <int rows, typename Tile>
inline __attribute__((always_inline)) void rest_tile(std::int64_t left, std::int64_t first,
                                                     const Tile& tile) {
  if constexpr (rows > 0) {
    if (left == rows) return tile(first, Count<rows>{});
    rest_tile<rows - 1>(left, first, tile);
  }
}

/// Calls tile(first row, Count<rows>()) for each full tile of panel_tile_rows rows, and for the
/// remaining rows.
template <typename Tile>
inline __attribute__((always_inline)) void each_tile(std::int64_t rows, const Tile& tile) {
  std::int64_t first = 0;
  for (; first + panel_tile_rows <= rows; first += panel_tile_rows)
    tile(first, Count<panel_tile_rows>{});
  rest_tile<panel_tile_rows - 1>(rows - first, first, tile);
}

}  // namespace
ANYACCEL_ISA_END
#endif
