#include "llm/model/graph_step.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "anyaccel/accelerator.h"
#include "base/env.h"
#include "base/log.h"
#include "llm/model/kv_cache.h"
#include "llm/quantize/integer_ops.h"

namespace anyaccel::llm {

namespace {

// Minimum increment of the reach, the number of positions that attention reads. For longer
// sequences, the increment is up to an eighth of their length.
constexpr std::int64_t min_step = 256;

std::string text_of(const std::exception& error) {
  const auto* torchs = dynamic_cast<const c10::Error*>(&error);
  return torchs ? torchs->what_without_backtrace() : error.what();
}

/// Returns true if the error means that a feature is unsupported, and false if an operation failed.
bool is_missing(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours ? ours->code() == ErrorCode::unsupported
              : dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr;
}

}  // namespace

DecodeWay decode_way() {
  const std::string name = env("ANYACCEL_DECODE").value_or("auto");
  if (name == "auto") return DecodeWay::automatic;
  if (name == "graph") return DecodeWay::graph;
  if (name == "plain") return DecodeWay::plain;
  throw Error(ErrorCode::invalid_argument, "ANYACCEL_DECODE",
              {.what = "unknown value", .got = name, .want = "auto, graph or plain"});
}

NextToken::NextToken(at::Tensor position, std::int64_t reach, const Rotation& table,
                     const Rotation& window_table)
    : position_(std::move(position)), reach_(reach), table_(table), window_table_(window_table) {}

at::Tensor NextToken::row(const at::Tensor& table, std::int64_t offset) const {
  return table.index_select(0, offset == 0 ? position_ : position_.add(offset));
}

Rotation NextToken::rows_of(const Rotation& table) const {
  if (!table.first.defined()) return {};
  return {row(table.first, 0), row(table.second, 0)};
}

const NextToken::Seen& NextToken::seen(std::int64_t window, const at::TensorOptions& options) {
  Seen& seen = seen_[window];
  if (seen.mask.defined()) return seen;
  // Gather the keys of a short window. If the window covers most of the reach, a mask is cheaper
  // than copies.
  const bool gathers = window > 0 && 2 * window < reach_;
  at::Tensor places = at::arange(gathers ? window : reach_, position_.options());
  at::Tensor hidden;
  if (gathers) {
    places = places.add(position_).sub(window - 1);
    hidden = places.lt(0);
    seen.places = places.clamp_min(0);
  } else {
    hidden = places.gt(position_);
    if (window > 0) hidden = hidden.logical_or(places.le(position_.sub(window)));
  }
  seen.mask = at::zeros({1, 1, 1, places.size(0)}, options)
                  .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return seen;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> NextToken::append(KvCache& cache, std::int64_t layer,
                                                                 const at::Tensor& key,
                                                                 const at::Tensor& value,
                                                                 std::int64_t window) {
  const auto index = static_cast<std::size_t>(layer);
  at::Tensor keys = cache.keys()[index], values = cache.values()[index];
  keys.index_copy_(2, position_, key);
  values.index_copy_(2, position_, value);
  const Seen& look = seen(window, key.options());
  if (look.places.defined())
    return {keys.index_select(2, look.places), values.index_select(2, look.places), look.mask};
  return {keys.narrow(2, 0, reach_), values.narrow(2, 0, reach_), look.mask};
}

bool GraphStep::takes(const Weights& weights, const ModelConfig& config, std::int64_t length) {
  if (weights.step->no_graphs || weights.shards || decode_way() == DecodeWay::plain) return false;
  if (config.rope.type == RopeType::dynamic && length + 1 > config.max_positions) return false;
  // A capture on a synchronized device keeps all intermediate tensors. Here, these would include a
  // dequantized copy of every matrix.
  if (weights.quantized && get_accelerator().is_synchronized_device() &&
      !has_integer_ops(weights.embedding))
    return false;
  return std::none_of(weights.layers.begin(), weights.layers.end(),
                      [](const LayerWeights& layer) { return layer.router.defined(); });
}

std::int64_t GraphStep::reach_of(std::int64_t length, std::int64_t capacity) {
  const auto eighth =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(length)) / 8);
  const std::int64_t step = std::max(min_step, eighth);
  return std::min(capacity, (length + step - 1) / step * step);
}

GraphStep::Work GraphStep::make_work(const ModelConfig& config, RopeTables& rope,
                                     std::int64_t reach, std::int64_t length) {
  Work work{get_accelerator().create_graph(), reach, {}, {}};
  if (config.learned_positions) return work;
  work.table = rope.tables(length, reach);
  work.window_table = rope.window_tables(length, reach);
  return work;
}

void GraphStep::capture(Work& work, const Pass& pass) {
  // The graphs can share a memory pool, because intermediate tensors do not outlive a replay.
  std::optional<GraphPool> pool;
  for (const auto& [key, other] : works_) {
    if (other.graph.state() == Graph::State::captured) pool = other.graph.pool();
  }
  GraphCapture scope = get_accelerator().capture_to_graph(work.graph, pool);
  NextToken next(position_, work.reach, work.table, work.window_table);
  logits_.copy_(pass(next, id_));
  scope.end();
  ++captures_;
  log(LogLevel::debug,
      "captured the decode step for up to " + std::to_string(work.reach) + " positions");
}

std::optional<at::Tensor> GraphStep::run(const Weights& weights, const ModelConfig& config,
                                         RopeTables& rope, const at::Tensor& id, KvCache& cache,
                                         const Pass& pass) {
  cache.check_room(1);
  if (owner_ != weights.step) *this = GraphStep();
  owner_ = weights.step;
  const std::int64_t length = cache.length() + 1;
  const Works::key_type key{reach_of(length, cache.capacity()), rope.scaling(length)};
  auto found = works_.find(key);
  try {
    if (found == works_.end()) {
      Work work = make_work(config, rope, key.first, length);
      set_inputs(id, cache);
      NextToken next(position_, work.reach, work.table, work.window_table);
      at::Tensor logits = pass(next, id_);
      if (!logits_.defined()) logits_ = at::empty_like(logits);
      works_.emplace(key, std::move(work));
      return logits;
    }
  } catch (const std::exception& error) {
    if (!is_missing(error)) throw;
    give_up(LogLevel::debug, error);
    return std::nullopt;
  }
  Work& work = found->second;
  set_inputs(id, cache);
  if (work.graph.state() != Graph::State::captured) {
    // Report earlier errors here, because they are not failures of the capture.
    get_accelerator().synchronize();
    try {
      capture(work, pass);
    } catch (const std::exception& error) {
      give_up(LogLevel::warning, error);
      return std::nullopt;
    }
  }
  get_accelerator().replay_graph(work.graph);
  ++replays_;
  return logits_.clone();
}

void GraphStep::set_inputs(const at::Tensor& id, KvCache& cache) {
  if (!id_.defined()) {
    id_ = at::empty_like(id);
    position_ = at::empty({1}, id.options());
  }
  id_.copy_(id);
  position_.fill_(cache.length());
  cache.clear_rest();
}

void GraphStep::give_up(LogLevel level, const std::exception& error) {
  owner_->no_graphs = true;
  works_.clear();
  log(level, "running decode steps eagerly instead of replaying a graph: " + text_of(error));
}

}  // namespace anyaccel::llm
