// Captures the pass over a sequence's next token into a graph, for accelerators that support graphs
// but have no `inference_decode` kernel. A replay launches all kernels with one call from the host.
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

/// How to compute the pass for a new token (ANYACCEL_DECODE).
enum class DecodeWay {
  automatic,  ///< the op `inference_decode` if supported, otherwise a graph, otherwise eager
  graph,      ///< a graph if supported, otherwise eager
  plain,      ///< eager
};

/// Reads ANYACCEL_DECODE. Throws `invalid_argument` unless it is `auto`, `graph` or `plain`.
DecodeWay decode_way();

/// Cosines and sines, one row per position.
using Rotation = std::pair<at::Tensor, at::Tensor>;

/// The position of a sequence's next token in a pass. It is a device tensor, so that a captured
/// pass can be replayed for another position. Attention reads the first `reach` positions and masks
/// the positions after the token.
class NextToken {
 public:
  /// `position`: int64 [1].
  NextToken(at::Tensor position, std::int64_t reach, const Rotation& table,
            const Rotation& window_table);

  /// The rows of the tables for this token; undefined if the tables are undefined.
  Rotation rotation() const { return rows_of(table_); }
  Rotation window_rotation() const { return rows_of(window_table_); }
  /// Returns the row [1, width] for this token in a table that has `offset` rows before the first
  /// position.
  at::Tensor row(const at::Tensor& table, std::int64_t offset) const;
  /// Stores the token's key and value [1, kv_heads, 1, head_dim] in a layer of the cache. Returns
  /// the keys and values to attend to, and a mask [1, 1, 1, positions] to add to the scores: 0, or
  /// minus infinity for masked positions. `window`: 0 for no limit.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> append(KvCache& cache, std::int64_t layer,
                                                        const at::Tensor& key,
                                                        const at::Tensor& value,
                                                        std::int64_t window);

 private:
  struct Seen {
    at::Tensor places;  ///< positions to gather; undefined: the first `reach_` positions
    at::Tensor mask;
  };
  const Seen& seen(std::int64_t window, const at::TensorOptions& options);
  Rotation rows_of(const Rotation& table) const;

  at::Tensor position_;
  std::int64_t reach_;
  Rotation table_, window_table_;
  std::map<std::int64_t, Seen> seen_;  ///< keyed by window size
};

/// The graphs for one cache. They read and write the cache's memory. For each reach, the first
/// token runs eagerly, the second is captured, and later ones are replayed. Not thread-safe.
class GraphStep {
 public:
  /// Computes the logits [1, 1, vocab] of an id [1, 1] that follows a sequence.
  using Pass = std::function<at::Tensor(NextToken& next, const at::Tensor& id)>;

  /// Returns whether the token after `length` positions can use a graph. It cannot in these cases:
  /// - Ranks share the model.
  /// - A layer has experts, which are chosen on the host.
  /// - The rotary frequencies change with each position.
  /// - A synchronized device lacks ops for quantized matrices.
  /// - An earlier attempt failed.
  static bool takes(const Weights& weights, const ModelConfig& config, std::int64_t length);

  /// Rounds `length` up to the number of positions that attention reads, at most `capacity`. The
  /// increments are coarse, because each value needs its own graph.
  static std::int64_t reach_of(std::int64_t length, std::int64_t capacity);

  /// Runs `pass` for the id that follows the cached positions. Stores the new position without
  /// advancing the cache. Returns nullopt if the accelerator does not support graphs or lacks a
  /// kernel, or if the capture fails, which also logs a warning. After that, takes() returns false.
  std::optional<at::Tensor> run(const Weights& weights, const ModelConfig& config, RopeTables& rope,
                                const at::Tensor& id, KvCache& cache, const Pass& pass);

  std::int64_t captures() const noexcept { return captures_; }
  std::int64_t replays() const noexcept { return replays_; }

 private:
  struct Work {
    Graph graph;
    std::int64_t reach;
    Rotation table, window_table;  ///< kept alive, because `rope` may replace its tables
  };
  /// Keyed by reach and RopeTables::scaling().
  using Works = std::map<std::pair<std::int64_t, std::int64_t>, Work>;

  Work make_work(const ModelConfig& config, RopeTables& rope, std::int64_t reach,
                 std::int64_t length);
  void set_inputs(const at::Tensor& id, KvCache& cache);
  void capture(Work& work, const Pass& pass);
  void give_up(LogLevel level, const std::exception& error);

  at::Tensor id_, position_, logits_;  ///< inputs and output of the graphs
  Works works_;
  std::shared_ptr<Weights::Step> owner_;  ///< identifies the weights that the graphs read
  std::int64_t captures_ = 0, replays_ = 0;
};

}  // namespace anyaccel::llm
