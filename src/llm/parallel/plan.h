// Determines which part of each checkpoint tensor a rank holds if several ranks share a model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

/// column: a range of outputs. row: a range of inputs; the results are summed. vocabulary: a range
/// of tokens.
enum class ShardStyle { replicated, column, row, vocabulary };
const char* to_string(ShardStyle style) noexcept;

/// The range [begin, begin + count).
struct Slice {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool operator==(const Slice&) const = default;
};

/// Returns a rank's part of `total`. The sizes of the parts differ by at most one; the first ranks
/// have the larger parts.
Slice balanced(std::int64_t total, std::int64_t rank, std::int64_t size);

struct HeadShare {
  Slice query, key;  ///< in heads
};

/// Assigns whole groups of query heads together with their key head. Splits groups if there are
/// fewer key heads than ranks, or if this lowers the largest load. Several ranks then hold the same
/// key head. A rank without heads has an empty `query`.
HeadShare share_heads(std::int64_t heads, std::int64_t kv_heads, int rank, int size);

/// Name in the checkpoint, and shape of the whole tensor.
using TensorShape = std::pair<std::string, std::vector<std::int64_t>>;

/// One rank's part of one tensor.
struct TensorPlan {
  std::string name;
  ShardStyle style = ShardStyle::replicated;
  std::vector<std::int64_t> shape;  ///< shape in the checkpoint
  std::size_t dim = 0;              ///< the split dimension
  std::vector<Slice> parts;  ///< to concatenate; several for a fused tensor, empty if replicated
  bool present = true;       ///< false for a bias that another rank adds

  std::vector<std::int64_t> local_shape() const;
};

/// A style for the tensors whose names match the pattern; `*` matches any characters. The last
/// matching rule applies.
using StyleRule = std::pair<std::string, ShardStyle>;

struct ParallelPlan {
  int rank = 0;
  int size = 1;
  ModelConfig local;  ///< configuration with the sizes of this rank's part
  bool attention = false, feed_forward = false, vocabulary = false;  ///< which blocks are split
  Slice tokens;                     ///< this rank's part of the vocabulary
  std::vector<TensorPlan> tensors;  ///< in the order of `shapes`
  /// Identifies the plan's inputs other than the configuration and shapes: rank, world size,
  /// granularity and rules.
  std::string key;

  /// Returns null if there is no tensor with this name.
  const TensorPlan* find(const std::string& name) const;
};

/// Returns whether the tensor is the down projection of a feed-forward layer that is not part of an
/// expert.
bool is_second_inner(const std::string& name);

/// Returns the plan for one rank. `shapes`: shapes of the whole model's tensors. `group`:
/// quantization group size (inputs per scale) if weights are integers, otherwise 0. If `group` is
/// not 0, feed-forward layers other than experts are split at group boundaries, or at boundaries of
/// blocks of 64 or 32 inputs if there are fewer groups than ranks. Throws `invalid_argument` naming
/// the weight if it cannot be divided among the ranks, or if its rule does not match the weight or
/// its block.
ParallelPlan make_plan(const ModelConfig& config, const std::vector<TensorShape>& shapes, int rank,
                       int size, const std::vector<StyleRule>& rules = {}, std::int64_t group = 0);

}  // namespace anyaccel::llm
