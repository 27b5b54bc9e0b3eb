#include "kernels/attention/sparse_layouts.h"

#include <algorithm>
#include <numeric>

namespace anyaccel::ops {

namespace {

/// Layout of one head.
class Grid {
 public:
  Grid(std::uint8_t* at, std::int64_t blocks) : at_(at), blocks_(blocks) {}

  std::int64_t blocks() const { return blocks_; }
  /// Sets the blocks in rows [row, row_end) and columns [column, column_end), clipped to the grid.
  void fill(std::int64_t row, std::int64_t row_end, std::int64_t column, std::int64_t column_end) {
    row_end = std::min(row_end, blocks_);
    column_end = std::min(column_end, blocks_);
    for (row = std::max<std::int64_t>(row, 0); row < row_end; ++row)
      for (std::int64_t i = std::max<std::int64_t>(column, 0); i < column_end; ++i)
        at_[row * blocks_ + i] = 1;
  }
  void drop_future() {
    for (std::int64_t row = 0; row < blocks_; ++row)
      std::fill(at_ + row * blocks_ + row + 1, at_ + (row + 1) * blocks_, std::uint8_t{0});
  }

 private:
  std::uint8_t* at_;
  std::int64_t blocks_;
};

/// SplitMix64 random number generator. It is easy to reproduce on any machine and in any language.
class Random {
 public:
  explicit Random(std::int64_t seed) : state_(static_cast<std::uint64_t>(seed)) {}

  /// Returns a number in [0, bound). The modulo bias is below 2^-40 for layouts that fit in memory.
  std::int64_t below(std::int64_t bound) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return static_cast<std::int64_t>((z ^ (z >> 31)) % static_cast<std::uint64_t>(bound));
  }

 private:
  std::uint64_t state_;
};

bool unidirectional(const LayoutOptions& o) { return o.attention == "unidirectional"; }

/// Sets `num_random_blocks` distinct blocks in each row. They are chosen from all columns, or with
/// `past_only` from the columns up to the diagonal.
void random_blocks(const LayoutOptions& o, bool past_only, Random& random, Grid grid) {
  std::vector<std::int64_t> columns(static_cast<std::size_t>(grid.blocks()));
  for (std::int64_t row = 0; row < grid.blocks(); ++row) {
    const std::int64_t range = past_only ? row + 1 : grid.blocks();
    std::iota(columns.begin(), columns.end(), 0);
    for (std::int64_t i = 0; i < std::min(o.num_random_blocks, range); ++i) {
      std::swap(columns[static_cast<std::size_t>(i)],
                columns[static_cast<std::size_t>(i + random.below(range - i))]);
      const std::int64_t column = columns[static_cast<std::size_t>(i)];
      grid.fill(row, row + 1, column, column + 1);
    }
  }
}

void window(const LayoutOptions& o, std::int64_t begin, std::int64_t size, Grid grid) {
  const std::int64_t end = std::min(begin + size, grid.blocks());
  for (std::int64_t row = begin; row < end; ++row)
    grid.fill(row, row + 1, begin, unidirectional(o) ? row + 1 : end);
}

void sliding_window(const LayoutOptions& o, bool past_only, Grid grid) {
  const std::int64_t half = o.num_sliding_window_blocks / 2;
  for (std::int64_t row = 0; row < grid.blocks(); ++row)
    grid.fill(row, row + 1, row - half, past_only ? row + 1 : row + half + 1);
}

/// Sets columns [begin, end) in all rows, or with `from_begin` only in row `begin` and the rows
/// after it. With `horizontal`, also sets rows [begin, end).
void global_blocks(std::int64_t begin, std::int64_t end, bool from_begin, bool horizontal,
                   Grid grid) {
  if (horizontal) grid.fill(begin, end, 0, grid.blocks());
  grid.fill(from_begin ? begin : 0, grid.blocks(), begin, end);
}

void listed_global_blocks(const LayoutOptions& o, bool from_begin, bool horizontal, Grid grid) {
  for (std::size_t i = 0; i < o.global_block_indices.size(); ++i) {
    const std::int64_t begin = o.global_block_indices[i];
    if (begin >= grid.blocks()) continue;
    global_blocks(begin, o.global_block_end_indices ? (*o.global_block_end_indices)[i] : begin + 1,
                  from_begin, horizontal, grid);
  }
}

void fixed(const LayoutOptions& o, std::int64_t head, Grid grid) {
  for (std::int64_t begin = 0; begin < grid.blocks(); begin += o.num_local_blocks)
    window(o, begin, o.num_local_blocks, grid);
  const std::int64_t first =
      o.num_local_blocks - (1 + head % o.num_different_global_patterns) * o.num_global_blocks;
  const std::int64_t whole = grid.blocks() - grid.blocks() % o.num_local_blocks;
  for (std::int64_t begin = first; begin < whole; begin += o.num_local_blocks)
    global_blocks(begin, begin + o.num_global_blocks, unidirectional(o),
                  o.horizontal_global_attention, grid);
  if (whole == grid.blocks()) return;
  // The last window is incomplete, so its global blocks move left until they fit.
  const std::int64_t begin =
      std::max<std::int64_t>(0, std::min(whole + first, grid.blocks() - o.num_global_blocks));
  global_blocks(begin, begin + o.num_global_blocks, unidirectional(o),
                o.horizontal_global_attention, grid);
}

void variable(const LayoutOptions& o, Random& random, Grid grid) {
  random_blocks(o, false, random, grid);
  std::int64_t begin = 0;
  for (std::size_t i = 0; begin < grid.blocks(); ++i) {
    // Limit the size, because the sum of large window sizes could overflow.
    const std::int64_t size = std::min(
        o.local_window_blocks[std::min(i, o.local_window_blocks.size() - 1)], grid.blocks());
    window(o, begin, size, grid);
    begin += size;
  }
  listed_global_blocks(o, unidirectional(o), o.horizontal_global_attention, grid);
}

void one_head(const LayoutOptions& o, std::int64_t head, Random& random, Grid grid) {
  const std::int64_t all = grid.blocks();
  if (o.kind == "dense") return grid.fill(0, all, 0, all);
  if (o.kind == "fixed") return fixed(o, head, grid);
  if (o.kind == "variable") return variable(o, random, grid);
  if (o.kind == "local") return sliding_window(o, unidirectional(o), grid);
  if (o.kind == "bigbird") random_blocks(o, unidirectional(o), random, grid);
  sliding_window(o, false, grid);
  if (o.kind == "bigbird") global_blocks(0, o.num_global_blocks, false, true, grid);
  if (o.kind == "bslongformer") listed_global_blocks(o, false, true, grid);
  if (unidirectional(o)) grid.drop_future();
}

std::string wrong(const LayoutOptions& o, const char* what, const std::string& got,
                  const std::string& want) {
  return "[sparse_attention " + o.kind + " layout] " + what + "; got " + got + ", want " + want;
}

std::string wrong(const LayoutOptions& o, const char* what, std::int64_t got,
                  const std::string& want) {
  return wrong(o, what, std::to_string(got), want);
}

std::string fixed_error(const LayoutOptions& o) {
  if (o.num_local_blocks < 1)
    return wrong(o, "num_local_blocks is out of range", o.num_local_blocks, "1 or more");
  if (o.num_global_blocks < 1 || o.num_local_blocks % o.num_global_blocks)
    return wrong(o, "num_local_blocks is not divisible by num_global_blocks", o.num_global_blocks,
                 "a divisor of " + std::to_string(o.num_local_blocks));
  const std::int64_t patterns = o.num_different_global_patterns;
  if (patterns > 1 && !o.different_layout_per_head)
    return wrong(o, "num_different_global_patterns requires different_layout_per_head", patterns,
                 "1, or different_layout_per_head");
  if (patterns < 1 || patterns > o.num_local_blocks / o.num_global_blocks)
    return wrong(o, "num_different_global_patterns is out of range", patterns,
                 "1 to " + std::to_string(o.num_local_blocks / o.num_global_blocks));
  return {};
}

std::string indices_error(const LayoutOptions& o) {
  for (const std::int64_t index : o.global_block_indices)
    if (index < 0) return wrong(o, "a global block index is negative", index, "0 or more");
  if (!o.global_block_end_indices) return {};
  const auto& ends = *o.global_block_end_indices;
  if (ends.size() != o.global_block_indices.size())
    return wrong(o, "global_block_end_indices and global_block_indices differ in length",
                 static_cast<std::int64_t>(ends.size()),
                 std::to_string(o.global_block_indices.size()));
  for (std::size_t i = 0; i < ends.size(); ++i)
    if (ends[i] <= o.global_block_indices[i])
      return wrong(o, "a global window ends before it begins", ends[i],
                   "an end index above " + std::to_string(o.global_block_indices[i]));
  return {};
}

}  // namespace

std::string layout_error(const LayoutOptions& o) {
  constexpr const char* kinds[] = {"dense",   "fixed",        "variable",
                                   "bigbird", "bslongformer", "local"};
  if (std::find(std::begin(kinds), std::end(kinds), o.kind) == std::end(kinds))
    return wrong(o, "unknown layout", o.kind,
                 "dense, fixed, variable, bigbird, bslongformer or local");
  if (o.num_heads < 1) return wrong(o, "num_heads is out of range", o.num_heads, "1 or more");
  if (o.block < 16 || o.block > 128 || o.block % 16)
    return wrong(o, "the block size is not supported", o.block, "a multiple of 16 from 16 to 128");
  if (o.seq_len < 0 || o.seq_len % o.block)
    return wrong(o, "the sequence length is not a multiple of the block size", o.seq_len,
                 "a multiple of " + std::to_string(o.block) + "; use pad_to_block_size");
  if (o.attention != "bidirectional" && o.attention != "unidirectional")
    return wrong(o, "unknown attention", o.attention, "bidirectional or unidirectional");
  if (o.horizontal_global_attention && unidirectional(o))
    return wrong(o, "horizontal_global_attention requires bidirectional attention", o.attention,
                 "bidirectional");
  if (o.num_random_blocks < 0 || o.num_sliding_window_blocks < 1 || o.num_global_blocks < 0)
    return wrong(o, "a number of blocks is out of range",
                 std::min({o.num_random_blocks, o.num_sliding_window_blocks, o.num_global_blocks}),
                 "0 or more random and global blocks, and a window of 1 or more blocks");
  if (o.kind == "fixed")
    if (std::string error = fixed_error(o); !error.empty()) return error;
  if (o.kind == "variable" &&
      (o.local_window_blocks.empty() ||
       *std::min_element(o.local_window_blocks.begin(), o.local_window_blocks.end()) < 1))
    return wrong(o, "local_window_blocks is empty or has a size below 1",
                 o.local_window_blocks.empty() ? "an empty list" : "a size below 1",
                 "sizes of 1 or more");
  if (std::string error = indices_error(o); !error.empty()) return error;
  if (!o.seq_len) return {};
  const std::int64_t blocks = o.seq_len / o.block;
  const bool big_bird = o.kind == "bigbird",
             slides = big_bird || o.kind == "bslongformer" || o.kind == "local";
  const std::int64_t most =
      std::max({big_bird || o.kind == "variable" ? o.num_random_blocks : 0,
                slides ? o.num_sliding_window_blocks : 0, big_bird ? o.num_global_blocks : 0});
  if (most > blocks)
    return wrong(o, "the sequence is too short for the random, sliding or global blocks",
                 std::to_string(blocks) + " blocks", std::to_string(most) + " blocks or more");
  return {};
}

std::vector<std::uint8_t> make_layout(const LayoutOptions& o) {
  const std::int64_t blocks = o.seq_len / o.block;
  const std::int64_t size = blocks * blocks;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(o.num_heads * size), 0);
  Random random(o.seed);
  for (std::int64_t head = 0; head < (o.different_layout_per_head ? o.num_heads : 1); ++head)
    one_head(o, head, random, Grid(out.data() + head * size, blocks));
  if (!o.different_layout_per_head)
    for (std::int64_t head = 1; head < o.num_heads; ++head)
      std::copy_n(out.data(), size, out.data() + head * size);
  return out;
}

}  // namespace anyaccel::ops
