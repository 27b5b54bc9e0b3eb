// Which part of each of a checkpoint's tensors a rank has when several run one model together.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

/// column: a part of the outputs. row: a part of the inputs, results are added up. vocabulary: a
/// part of the tokens.
enum class ShardStyle { replicated, column, row, vocabulary };
const char* to_string(ShardStyle style) noexcept;

/// `count` from `begin` on.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool operator==(const Slice&) const = default;
};

/// A rank's part of `total`; parts differ by one at most, the first ranks have the larger ones.
Slice balanced(std::int64_t total, std::int64_t rank, std::int64_t size);

struct HeadShare {
  Slice query, key;  ///< in heads
};

/// Whole groups of query heads with their key head. Where there are fewer key heads than ranks, or
/// the rank with most would have less to do, groups are cut: several ranks have the same key head
/// then. A rank without heads has none in `query`.
HeadShare share_heads(std::int64_t heads, std::int64_t kv_heads, int rank, int size);

/// Name in the checkpoint and whole shape.
using TensorShape = std::pair<std::string, std::vector<std::int64_t>>;

/// What one rank has of one tensor.
struct TensorPlan {
  std::string name;
  ShardStyle style = ShardStyle::replicated;
  std::vector<std::int64_t> shape;  ///< whole, as the checkpoint has it
  std::size_t dim = 0;              ///< which one is split
  std::vector<Slice> parts;  ///< one after the other; a fused tensor has several. Replicated: none
  bool present = true;       ///< false: a bias that another rank adds

  std::vector<std::int64_t> local_shape() const;
};

/// A style for the tensors whose name has this pattern, `*` standing for any characters; the last
/// that fits counts.
using StyleRule = std::pair<std::string, ShardStyle>;

struct ParallelPlan {
  int rank = 0;
  int size = 1;
  ModelConfig local;                                                 ///< sizes of this rank's part
  bool attention = false, feed_forward = false, vocabulary = false;  ///< what is split
  Slice tokens;                     ///< this rank's part of the vocabulary
  std::vector<TensorPlan> tensors;  ///< in the order of `shapes`
  std::string key;  ///< what it follows from beside configuration and shapes: the rank, their
                    ///< number, the rules

  /// Null where there is none of the name.
  const TensorPlan* find(const std::string& name) const;
};

/// Whether it is the weight that makes a feed-forward part's results of its inner values, of no
/// expert.
bool is_second_inner(const std::string& name);

/// The plan of one rank. `shapes` are those of the whole configuration. `group`: inputs that share
/// a scale where weights are integers; the feed-forward part (not experts) is then cut between
/// groups, 64 or 32 inputs where there are fewer groups than ranks. Throws `invalid_argument`
/// naming the weight that does not divide among so many ranks, or whose rule does not fit it or its
/// block.
ParallelPlan make_plan(const ModelConfig& config, const std::vector<TensorShape>& shapes, int rank,
                       int size, const std::vector<StyleRule>& rules = {}, std::int64_t group = 0);

}  // namespace anyaccel::llm
