// Rows by the tile. Included by panels_isa.h and panels_bf16.h inside a namespace and under a target.
namespace {

template <int rows, typename Tile>
inline __attribute__((always_inline)) void rest_tile(std::int64_t left, std::int64_t first, const Tile& tile) {
  if constexpr (rows > 0) {
    if (left == rows) return tile(first, Count<rows>{});
    rest_tile<rows - 1>(left, first, tile);
  }
}

/// Calls tile(first row, Count<rows>()): panel_tile_rows at once, then those that are left.
template <typename Tile>
inline __attribute__((always_inline)) void each_tile(std::int64_t rows, const Tile& tile) {
  std::int64_t first = 0;
  for (; first + panel_tile_rows <= rows; first += panel_tile_rows) tile(first, Count<panel_tile_rows>{});
  rest_tile<panel_tile_rows - 1>(rows - first, first, tile);
}

}  // namespace
