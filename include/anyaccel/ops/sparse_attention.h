// Block-sparse attention on host memory and (not run on hardware) on CUDA, with the layouts and
// names of DeepSpeed's deepspeed.ops.sparse_attention. Time and memory grow with the blocks that
// are there. Link `anyaccel::ops`. docs/reference/ops-attention.md has the Python side.
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

/// Which blocks of keys each block of queries sees. Errors of constructors and make_layout() are
/// `invalid_argument`. Objects do not change and may be used by several threads.
///
/// All options: `block` is the size of a block, a multiple of 16 from 16 to 128;
/// `different_layout_per_head` lets heads differ, where a kind has what to differ in; `attention`
/// is "bidirectional" or "unidirectional" (windows, sliding windows and single global blocks stop
/// at the query's own block, in which it sees all keys. As defined by DeepSpeed, several global
/// blocks side by side, and random blocks of `Variable`, may lie after it: give an attention mask
/// where that must not be). `seed` chooses the random blocks: the same seed gives the same layout
/// in C++ and Python and on all machines.
class ANYACCEL_API SparsityConfig {
 public:
  virtual ~SparsityConfig() = default;
  /// int64 [num_heads, seq_len / block, seq_len / block] of 0 and 1, on the host. `seq_len` is a
  /// multiple of `block`.
  at::Tensor make_layout(std::int64_t seq_len) const;
  std::int64_t num_heads() const noexcept { return num_heads_; }
  std::int64_t block() const noexcept { return block_; }

 protected:
  /// What the op is asked with; see its schema in docs/reference/ops-attention.md.
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

struct DenseSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
};

/// Every block.
class ANYACCEL_API DenseSparsityConfig : public SparsityConfig {
 public:
  explicit DenseSparsityConfig(std::int64_t num_heads, const DenseSparsityOptions& options = {});
};

struct FixedSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
  std::int64_t num_local_blocks = 4;   ///< of a window
  std::int64_t num_global_blocks = 1;  ///< that represent a window; divides num_local_blocks
  std::string attention = "bidirectional";
  bool horizontal_global_attention = false;        ///< representatives see all; bidirectional only
  std::int64_t num_different_global_patterns = 1;  ///< more with different_layout_per_head only
};

/// Windows one after the other, each represented by its last blocks, which all see (Child et al.
/// 2019).
class ANYACCEL_API FixedSparsityConfig : public SparsityConfig {
 public:
  explicit FixedSparsityConfig(std::int64_t num_heads, const FixedSparsityOptions& options = {});
};

struct VariableSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
  std::int64_t num_random_blocks = 0;  ///< in each row, anywhere
  std::vector<std::int64_t> local_window_blocks = {
      4};  ///< sizes of the windows; the last goes on to the end
  std::vector<std::int64_t> global_block_indices = {0};
  std::optional<std::vector<std::int64_t>>
      global_block_end_indices;  ///< exclusive; then the others are beginnings
  std::string attention = "bidirectional";
  bool horizontal_global_attention = false;
  std::int64_t seed = 0;
};

/// Windows of given sizes, given global blocks, random ones.
class ANYACCEL_API VariableSparsityConfig : public SparsityConfig {
 public:
  explicit VariableSparsityConfig(std::int64_t num_heads,
                                  const VariableSparsityOptions& options = {});
};

struct BigBirdSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
  std::int64_t num_random_blocks = 1;
  std::int64_t num_sliding_window_blocks = 3;
  std::int64_t num_global_blocks = 1;  ///< the first ones, which see all and are seen by all
  std::string attention = "bidirectional";
  std::int64_t seed = 0;
};

/// A sliding window, global and random blocks (Zaheer et al. 2020).
class ANYACCEL_API BigBirdSparsityConfig : public SparsityConfig {
 public:
  explicit BigBirdSparsityConfig(std::int64_t num_heads,
                                 const BigBirdSparsityOptions& options = {});
};

struct BSLongformerSparsityOptions {
  std::int64_t block = 16;
  bool different_layout_per_head = false;
  std::int64_t num_sliding_window_blocks = 3;
  std::vector<std::int64_t> global_block_indices = {0};
  std::optional<std::vector<std::int64_t>> global_block_end_indices;
  std::string attention = "bidirectional";
};

/// A sliding window and given global blocks, which see all and are seen by all (Beltagy et al.
/// 2020, in blocks).
class ANYACCEL_API BSLongformerSparsityConfig : public SparsityConfig {
 public:
  explicit BSLongformerSparsityConfig(std::int64_t num_heads,
                                      const BSLongformerSparsityOptions& options = {});
};

struct LocalSlidingWindowSparsityOptions {
  std::int64_t block = 16;
  std::int64_t num_sliding_window_blocks = 3;
  std::string attention = "unidirectional";
};

/// A sliding window alone.
class ANYACCEL_API LocalSlidingWindowSparsityConfig : public SparsityConfig {
 public:
  explicit LocalSlidingWindowSparsityConfig(std::int64_t num_heads,
                                            const LocalSlidingWindowSparsityOptions& options = {});
};

/// What is not there is an undefined tensor.
struct SparseAttentionMasks {
  at::Tensor rpe;  ///< added to the scaled scores; expands to [batch, heads, length, length]; may
                   ///< want a gradient
  at::Tensor key_padding_mask;  ///< expands to [batch, length]
  at::Tensor attn_mask;         ///< expands to [length, length]
  std::string key_padding_mask_mode =
      "add";  ///< "add": added to the scores; "mul": where it is 0 the key is hidden
  std::string attn_mask_mode = "mul";
};

/// softmax(scale q k^T + masks) v over the blocks of the layout, with gradients for q, k, v and
/// rpe.
///
/// q, k, v: [batch, heads, length, head dim] of one shape and dtype, float32, bfloat16, float16
/// (arithmetic in float32) or float64; any strides; length is a multiple of `block`. `layout`:
/// integers or bool [heads or 1, length / block, length / block]. `scale` is by default 1 /
/// sqrt(head dim). The result is contiguous, like q. A query that sees no key gives zeros, and zero
/// gradients. Masks of another dtype than the arithmetic's (but bool that hides), and padded head
/// dimensions, are converted first, which is a pass over them. Loads the op first if need be.
/// Errors: `invalid_argument`; `build_failed` or `unavailable` from loading. Thread-safe; torch's
/// threads are used. The result does not depend on their number; gradients are the same in every
/// run with as many threads, and up to 4 threads with any number. Differentiable once.
ANYACCEL_API at::Tensor sparse_attention(const at::Tensor& q, const at::Tensor& k,
                                         const at::Tensor& v, const at::Tensor& layout,
                                         std::int64_t block,
                                         std::optional<double> scale = std::nullopt,
                                         const SparseAttentionMasks& masks = {});

/// DeepSpeed's module: makes the layout once, for `max_seq_length`, and uses its beginning for
/// shorter sequences.
class ANYACCEL_API SparseSelfAttention {
 public:
  explicit SparseSelfAttention(std::shared_ptr<const SparsityConfig> config,
                               std::string key_padding_mask_mode = "add",
                               std::string attn_mask_mode = "mul",
                               std::int64_t max_seq_length = 2048);

  /// The layout for `length`; `invalid_argument` when it is no whole number of blocks or longer
  /// than max_seq_length.
  at::Tensor get_layout(std::int64_t length) const;
  /// As sparse_attention(); undefined tensors are what is not there.
  at::Tensor forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const at::Tensor& rpe = {}, const at::Tensor& key_padding_mask = {},
                     const at::Tensor& attn_mask = {}) const;

 private:
  std::shared_ptr<const SparsityConfig> config_;
  std::string key_padding_mask_mode_, attn_mask_mode_;
  at::Tensor master_layout_;
};

/// The tensor with `value` appended along `dim` up to a whole number of blocks, and how many were
/// appended.
ANYACCEL_API std::pair<at::Tensor, std::int64_t> pad_to_block_size(const at::Tensor& tensor,
                                                                   std::int64_t block,
                                                                   std::int64_t dim,
                                                                   double value = 0);

}  // namespace anyaccel::ops
