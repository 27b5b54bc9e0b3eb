// Block-sparse attention for tensors in host memory and on CUDA (untested on hardware), with the
// layouts and names of DeepSpeed's deepspeed.ops.sparse_attention. Time and memory grow with the
// number of blocks in the layout. Link `anyaccel::ops`. docs/reference/ops-attention.md describes
// the Python interface.
//
//     ops::SparseSelfAttention attention(std::make_shared<ops::BigBirdSparsityConfig>(heads));
//     const at::Tensor out = attention.forward(q, k, v);  // [batch, heads, length, head dim]
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// Sparsity layout: which key blocks each query block attends to. Immutable, so threads may share
/// it. Constructors and make_layout() throw `invalid_argument` for invalid values.
///
/// Options shared by several classes:
///
/// - block: block size, a multiple of 16 from 16 to 128.
/// - different_layout_per_head: let heads have different layouts, if the class has random or
///   variable patterns.
/// - attention: "bidirectional" or "unidirectional". With "unidirectional", windows, sliding
///   windows and single global blocks end at the query's block, in which the query attends to all
///   keys. As in DeepSpeed, ranges of several global blocks and the random blocks of
///   VariableSparsityConfig may lie beyond that block; exclude them with an attention mask.
/// - seed: seed for selecting the random blocks. The same seed gives the same layout in C++ and
///   Python and on all machines.
class ANYACCEL_API SparsityConfig {
 public:
  virtual ~SparsityConfig() = default;
  /// Return the layout as an int64 host tensor of zeros and ones, [num_heads, seq_len / block,
  /// seq_len / block]. `seq_len` must be a multiple of `block`.
  at::Tensor make_layout(std::int64_t seq_len) const;
  /// Number of heads.
  std::int64_t num_heads() const noexcept { return num_heads_; }
  /// Block size.
  std::int64_t block() const noexcept { return block_; }

 protected:
  /// Arguments of the op; see its schema in docs/reference/ops-attention.md.
  struct Request {
    const char* kind;
    bool different_layout_per_head = false;
    std::vector<std::int64_t> local_window_blocks, global_block_indices;
    std::optional<std::vector<std::int64_t>> global_block_end_indices;
    std::int64_t num_local_blocks = 1, num_global_blocks = 1, num_random_blocks = 0,
                 num_sliding_window_blocks = 1, num_different_global_patterns = 1;
    std::string attention = "bidirectional";
    bool horizontal_global_attention = false;
    std::int64_t seed = 0;
  };
  SparsityConfig(std::int64_t num_heads, std::int64_t block, Request request);

 private:
  std::int64_t num_heads_, block_;
  Request request_;
};

/// Options for DenseSparsityConfig; SparsityConfig describes them.
struct DenseSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
};

/// A dense layout: all blocks are present.
class ANYACCEL_API DenseSparsityConfig : public SparsityConfig {
 public:
  explicit DenseSparsityConfig(std::int64_t num_heads, const DenseSparsityOptions& options = {});
};

/// Options for FixedSparsityConfig; SparsityConfig describes those without a comment.
struct FixedSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
  std::int64_t num_local_blocks = 4;  ///< number of blocks per window
  /// Number of blocks that represent a window. Must divide num_local_blocks.
  std::int64_t num_global_blocks = 1;
  std::string attention = "bidirectional";
  /// Representative blocks attend to all blocks. Requires "bidirectional".
  bool horizontal_global_attention = false;
  /// Values above 1 require different_layout_per_head.
  std::int64_t num_different_global_patterns = 1;
};

/// A layout of consecutive windows. The last blocks of a window represent it: all queries attend to
/// them (Child et al., arXiv:1904.10509).
class ANYACCEL_API FixedSparsityConfig : public SparsityConfig {
 public:
  explicit FixedSparsityConfig(std::int64_t num_heads, const FixedSparsityOptions& options = {});
};

/// Options for VariableSparsityConfig; SparsityConfig describes those without a comment.
struct VariableSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
  std::int64_t num_random_blocks = 0;  ///< number of random blocks per row
  /// Window sizes. The last size repeats until the end of the sequence.
  std::vector<std::int64_t> local_window_blocks = {4};
  /// Global blocks, or the first block of each range if there are end indices.
  std::vector<std::int64_t> global_block_indices = {0};
  /// Exclusive ends of the ranges of global blocks.
  std::optional<std::vector<std::int64_t>> global_block_end_indices;
  std::string attention = "bidirectional";
  bool horizontal_global_attention = false;
  std::int64_t seed = 0;
};

/// A layout with windows of the given sizes, the given global blocks, and random blocks.
class ANYACCEL_API VariableSparsityConfig : public SparsityConfig {
 public:
  explicit VariableSparsityConfig(std::int64_t num_heads,
                                  const VariableSparsityOptions& options = {});
};

/// Options for BigBirdSparsityConfig; SparsityConfig describes those without a comment.
struct BigBirdSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
  std::int64_t num_random_blocks = 1;
  std::int64_t num_sliding_window_blocks = 3;
  /// Number of global blocks at the beginning. They attend to all blocks, and all queries attend to
  /// them.
  std::int64_t num_global_blocks = 1;
  std::string attention = "bidirectional";
  std::int64_t seed = 0;
};

/// A layout with a sliding window, global blocks and random blocks (Zaheer et al., "Big Bird",
/// arXiv:2007.14062).
class ANYACCEL_API BigBirdSparsityConfig : public SparsityConfig {
 public:
  explicit BigBirdSparsityConfig(std::int64_t num_heads,
                                 const BigBirdSparsityOptions& options = {});
};

/// Options for BSLongformerSparsityConfig, as in VariableSparsityOptions.
struct BSLongformerSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
  std::int64_t num_sliding_window_blocks = 3;
  std::vector<std::int64_t> global_block_indices = {0};
  std::optional<std::vector<std::int64_t>> global_block_end_indices;
  std::string attention = "bidirectional";
};

/// A layout with a sliding window and the given global blocks. Global blocks attend to all blocks,
/// and all queries attend to them. This is the block-sparse form of Longformer (Beltagy et al.,
/// arXiv:2004.05150).
class ANYACCEL_API BSLongformerSparsityConfig : public SparsityConfig {
 public:
  explicit BSLongformerSparsityConfig(std::int64_t num_heads,
                                      const BSLongformerSparsityOptions& options = {});
};

/// Options for LocalSlidingWindowSparsityConfig; SparsityConfig describes them.
struct LocalSlidingWindowSparsityOptions {
  std::int64_t block = 16;
  std::int64_t num_sliding_window_blocks = 3;
  std::string attention = "unidirectional";
};

/// A layout with a sliding window and without global blocks.
class ANYACCEL_API LocalSlidingWindowSparsityConfig : public SparsityConfig {
 public:
  explicit LocalSlidingWindowSparsityConfig(std::int64_t num_heads,
                                            const LocalSlidingWindowSparsityOptions& options = {});
};

/// Masks and relative position bias. Undefined tensors are ignored.
struct SparseAttentionMasks {
  /// Relative position bias, added to the scaled scores. Broadcasts to [batch, heads, length,
  /// length]. May require a gradient.
  at::Tensor rpe;
  at::Tensor key_padding_mask;  ///< broadcasts to [batch, length]
  at::Tensor attn_mask;         ///< broadcasts to [length, length]
  /// "add": add key_padding_mask to the scores. "mul": mask the keys whose entry is 0.
  std::string key_padding_mask_mode = "add";
  /// How attn_mask is applied: "add" or "mul", as for key_padding_mask_mode.
  std::string attn_mask_mode = "mul";
};

/// Compute softmax(scale q k^T + masks) v over the blocks of the layout, with gradients for q, k, v
/// and rpe.
///
/// - q, k, v: [batch, heads, length, head dim] of the same shape and dtype: float32, bfloat16,
///   float16 (with float32 arithmetic) or float64. Any strides. `length` must be a multiple of
///   `block`.
/// - layout: integers or bool, [heads or 1, length / block, length / block].
/// - scale: 1 / sqrt(head dim) by default.
///
/// Returns a contiguous tensor with the shape and dtype of q. For a query whose keys are all
/// masked, the result and the gradients are zero. Masks whose dtype differs from the compute dtype
/// are converted first, except a bool attn_mask in "mul" mode. Head dimensions that need padding
/// are padded first. The conversion and the padding each take an additional pass over the data.
///
/// Results do not depend on the number of threads. Gradients are bit-identical between runs with
/// the same number of threads, and between all runs with at most 4 threads. Second derivatives are
/// not supported.
///
/// Throws `invalid_argument` for invalid arguments, and `build_failed` or `unavailable` if the op
/// cannot be loaded. Thread-safe; uses torch's threads.
ANYACCEL_API at::Tensor sparse_attention(const at::Tensor& q, const at::Tensor& k,
                                         const at::Tensor& v, const at::Tensor& layout,
                                         std::int64_t block,
                                         std::optional<double> scale = std::nullopt,
                                         const SparseAttentionMasks& masks = {});

/// Block-sparse self-attention, like DeepSpeed's module of the same name. It creates the layout
/// once, for `max_seq_length`, and uses the layout's first blocks for shorter sequences.
class ANYACCEL_API SparseSelfAttention {
 public:
  /// Create the layout. Throws the same errors as SparsityConfig::make_layout().
  explicit SparseSelfAttention(std::shared_ptr<const SparsityConfig> config,
                               std::string key_padding_mask_mode = "add",
                               std::string attn_mask_mode = "mul",
                               std::int64_t max_seq_length = 2048);

  /// Return the layout for `length`. Throws `invalid_argument` if `length` is not a multiple of the
  /// block size or is greater than max_seq_length.
  at::Tensor get_layout(std::int64_t length) const;
  /// Compute attention; see sparse_attention(). Pass undefined tensors to omit `rpe` and the masks.
  at::Tensor forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const at::Tensor& rpe = {}, const at::Tensor& key_padding_mask = {},
                     const at::Tensor& attn_mask = {}) const;

 private:
  std::shared_ptr<const SparsityConfig> config_;
  std::string key_padding_mask_mode_, attn_mask_mode_;
  at::Tensor master_layout_;
};

/// Pad a tensor with `value` at the end of `dim`, up to a multiple of `block`. Returns the padded
/// tensor and the number of appended entries.
ANYACCEL_API std::pair<at::Tensor, std::int64_t> pad_to_block_size(const at::Tensor& tensor,
                                                                   std::int64_t block,
                                                                   std::int64_t dim,
                                                                   double value = 0);

}  // namespace anyaccel::ops
