// One sequence's next token as a captured graph, for accelerators that have graphs and no op for
// it: launches cost the host one call.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "anyaccel/graph.h"
#include "anyaccel/llm/config.h"
#include "base/log.h"
#include "llm/model/rope.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

class KvCache;

/// Which way the pass over a new token may take, as ANYACCEL_DECODE says.
enum class DecodeWay {
  automatic,  ///< the op `inference_decode`, else a graph, else op by op
  graph,      ///< a graph, else op by op
  plain,      ///< op by op
};

/// Throws `invalid_argument` for a value that is none of `auto`, `graph`, `plain`.
DecodeWay decode_way();

/// Cosines and sines, a row for each position.
using Rotation = std::pair<at::Tensor, at::Tensor>;

/// Where a sequence's next token stands, in one pass. The position is a value on the device, so
/// that a pass which was captured can be replayed for another one; what attention looks at is the
/// first `reach` positions, those behind the token's own masked out.
class NextToken {
 public:
  /// `position`: int64 [1].
  NextToken(at::Tensor position, std::int64_t reach, const Rotation& table,
            const Rotation& window_table);

  /// Rows of the tables; undefined where the tables are.
  Rotation rotation() const { return rows_of(table_); }
  Rotation window_rotation() const { return rows_of(window_table_); }
  /// The row of a table that has `offset` rows in front of the first position's, [1, width].
  at::Tensor row(const at::Tensor& table, std::int64_t offset) const;
  /// Stores the token's key and value [1, kv_heads, 1, head_dim] in a layer of the cache. Returns
  /// keys and values to look at, and what is added to their scores, [1, 1, 1, positions]: 0, or
  /// minus infinity where the token sees nothing. `window`: 0 for everything.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> append(KvCache& cache, std::int64_t layer,
                                                        const at::Tensor& key,
                                                        const at::Tensor& value,
                                                        std::int64_t window);

 private:
  struct Seen {
    at::Tensor places;  ///< undefined: the first `reach_`
    at::Tensor mask;
  };
  const Seen& seen(std::int64_t window, const at::TensorOptions& options);
  Rotation rows_of(const Rotation& table) const;

  at::Tensor position_;
  std::int64_t reach_;
  Rotation table_, window_table_;
  std::map<std::int64_t, Seen> seen_;  ///< layers of the same window share theirs
};

/// The graphs of one cache: they read and write its memory. The first token of a reach is computed
/// as usual, the second captures, and from then on each is a replay. Not thread-safe.
class GraphStep {
 public:
  /// The logits [1, 1, vocab] of an id [1, 1] behind a sequence.
  using Pass = std::function<at::Tensor(NextToken& next, const at::Tensor& id)>;

  /// Whether the next token behind `length` positions can go this way. Not where ranks hold the
  /// model, experts are chosen over the host, angles change with each position, host memory has no
  /// op for its integer matrices, or something failed before.
  static bool takes(const Weights& weights, const ModelConfig& config, std::int64_t length);

  /// How many positions attention looks at when it has to look at `length` of them: few different
  /// ones, since each is a graph.
  static std::int64_t reach_of(std::int64_t length, std::int64_t capacity);

  /// What `pass` gives for the id behind the cache's positions. The new position is stored but does
  /// not count yet. Nothing where the accelerator has no graphs or no kernel of an op for it, or
  /// the pass cannot be captured, which is told in a warning; takes() is false from then on.
  std::optional<at::Tensor> run(const Weights& weights, const ModelConfig& config, RopeTables& rope,
                                const at::Tensor& id, KvCache& cache, const Pass& pass);

  std::int64_t captures() const noexcept { return captures_; }
  std::int64_t replays() const noexcept { return replays_; }

 private:
  struct Work {
    Graph graph;
    std::int64_t reach;
    Rotation table, window_table;  ///< kept: rope makes other ones when it needs longer ones
  };
  using Works = std::map<std::pair<std::int64_t, std::int64_t>,
                         Work>;  ///< by reach and what the angles are for

  Work make_work(const ModelConfig& config, RopeTables& rope, std::int64_t reach,
                 std::int64_t length);
  void set_inputs(const at::Tensor& id, KvCache& cache);
  void capture(Work& work, const Pass& pass);
  void give_up(LogLevel level, const std::exception& error);

  at::Tensor id_, position_, logits_;  ///< what the graphs read and write
  Works works_;
  std::shared_ptr<Weights::Step> owner_;  ///< of the weights that they read
  std::int64_t captures_ = 0, replays_ = 0;
};

}  // namespace anyaccel::llm
