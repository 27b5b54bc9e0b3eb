// Layouts for block-sparse attention: which key blocks each query block attends to. Pure functions,
// independent of torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::ops {

/// Options for all layout kinds. Each kind reads only the options that apply to it. The names are
/// the same as in DeepSpeed.
struct LayoutOptions {
  std::string kind;  ///< dense, fixed, variable, bigbird, bslongformer, local
  /// If seq_len is 0, only the other options are validated.
  std::int64_t num_heads = 0, block = 16, seq_len = 0;
  bool different_layout_per_head = false;
  std::vector<std::int64_t> local_window_blocks, global_block_indices;
  std::optional<std::vector<std::int64_t>> global_block_end_indices;
  std::int64_t num_local_blocks = 4, num_global_blocks = 1, num_random_blocks = 0,
               num_sliding_window_blocks = 3, num_different_global_patterns = 1;
  std::string attention = "bidirectional";
  bool horizontal_global_attention = false;
  std::int64_t seed = 0;  ///< seed for the random blocks
};

/// Returns a complete error message if the options are invalid, and an empty string otherwise.
std::string layout_error(const LayoutOptions& options);

/// Returns a layout [num_heads][blocks][blocks] of zeros and ones. The options must be valid.
std::vector<std::uint8_t> make_layout(const LayoutOptions& options);

}  // namespace anyaccel::ops
