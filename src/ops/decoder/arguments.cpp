#include "ops/decoder/arguments.h"

#include <algorithm>

#include "ATen/core/dispatch/Dispatcher.h"
#include "kernels/decoder/prefill.h"
#include "ops/decoder/config.h"

namespace anyaccel::ops {
namespace {

constexpr const char* where = "inference_decode";

/// Reads the op's flat list of weights in order.
class Weights {
 public:
  Weights(const OptionalTensors& list, const Tensor& first) : list_(list), first_(first) {}

  std::optional<Tensor> take() { return list_.get(at_++); }
  std::size_t left() const { return list_.size() - at_; }

  Values values(const char* name, std::int64_t count) {
    const auto tensor = take();
    if (!is_given(tensor)) return {};
    check_whole(where, name, *tensor, first_);
    if (tensor->numel() != count)
      fail_argument(where, std::string(name) + " has the wrong size", words(*tensor),
                    std::to_string(count) + " values");
    return {const_cast<void*>(tensor->const_data_ptr()), element_of(where, name, *tensor)};
  }

  Norm norm(const char* name, NormKind kind, std::int64_t count, float eps) {
    const Values weight = values(name, count);
    return {kind, weight, values(name, count), eps};
  }

  /// Reads a projection with `inputs` inputs. Returns nullopt if the weight is absent.
  std::optional<Linear> part(const char* name, std::int64_t inputs) {
    const auto weight = take(), scales = take(), zeros = take();
    if (!is_given(weight)) {
      take();
      return std::nullopt;
    }
    Linear part{make_matrix(where, name, *weight, scales, zeros, first_), {}};
    if (part.matrix.inputs != inputs)
      fail_argument(where, std::string(name) + " has the wrong number of inputs", words(*weight),
                    std::to_string(inputs) + " inputs");
    part.bias = values(name, part.matrix.outputs);
    return part;
  }

  Linear one(const char* name, std::int64_t inputs, std::int64_t outputs) {
    auto found = part(name, inputs);
    if (!found || found->matrix.outputs != outputs)
      fail_argument(where, std::string(name) + " is missing or has the wrong number of outputs",
                    found ? std::to_string(found->matrix.outputs) + " outputs" : "none",
                    std::to_string(outputs) + " outputs");
    return *found;
  }

 private:
  const OptionalTensors& list_;
  const Tensor& first_;
  std::size_t at_ = 0;
};

/// Returns the outputs [begin, begin + count) of a projection.
Linear rows_of(const Linear& part, std::int64_t begin, std::int64_t count) {
  Linear out = part;
  Matrix& m = out.matrix;
  m.outputs = count;
  const std::int64_t bits = m.format == Format::f32    ? 32
                            : m.format == Format::int8 ? 8
                            : m.format == Format::int4 ? 4
                                                       : 16;
  m.weight = static_cast<const char*>(m.weight) + begin * m.inputs * bits / 8;
  if (m.group) {
    m.scales += begin * (m.inputs / m.group);
    if (m.zeros) m.zeros += begin * (m.inputs / m.group);
  }
  if (out.bias.data)
    out.bias.data = static_cast<char*>(out.bias.data) + begin * size_of(out.bias.type);
  return out;
}

Values cache_values(const Decoder& d, const Segment& segment, const Tensor& cache,
                    const Tensor& first) {
  check_whole(where, "a cache", cache, first);
  if (cache.sizes() != at::IntArrayRef({1, d.kv_heads, segment.capacity, d.head_dim}))
    fail_argument(where, "a cache has the wrong shape", words(cache),
                  "[1, kv_heads, capacity, head_dim] like the first cache of its segment");
  return {cache.mutable_data_ptr(), element_of(where, "a cache", cache)};
}

Cache make_cache(const Decoder& d, const Segment& segment, const Tensor& keys, const Tensor& values,
                 const Tensor& first) {
  const Cache cache{cache_values(d, segment, keys, first), cache_values(d, segment, values, first)};
  if (cache.keys.type != cache.values.type)
    fail_argument(where, "keys and values differ in dtype", words(values), words(keys));
  return cache;
}

/// Sets which query heads share each key head.
void set_groups(const DecoderConfig& config, Decoder& d) {
  if (config.heads_per_kv_head == 0) {
    if (d.heads % d.kv_heads)
      fail_argument(where, "num_heads is not divisible by num_kv_heads", std::to_string(d.kv_heads),
                    "a divisor of " + std::to_string(d.heads) + ", or heads_per_kv_head");
    d.group = d.heads / d.kv_heads;
    return;
  }
  d.group = config.heads_per_kv_head;
  d.first_head = config.first_head;
  if (d.key_head(d.heads - 1) != d.kv_heads - 1)
    fail_argument(where, "the number of key heads does not match the query heads",
                  c10::str(d.heads, " heads, ", d.group, " per key head, first_head ", d.first_head,
                           ", ", d.kv_heads, " key heads"),
                  std::to_string(d.key_head(d.heads - 1) + 1) + " key heads");
}

/// Sets how the partial results of the ranks are all-reduced.
void set_sum(const DecoderArguments& g, const DecoderConfig& config, Decoder& d) {
  const bool sums = config.sum_attention || config.sum_feed_forward;
  if (sums == g.sum_group.empty() || (sums && config.part != DecoderConfig::Part::whole))
    fail_argument(where, "sum_attention and sum_feed_forward do not match sum_group or part",
                  c10::str("sum_attention ", int{config.sum_attention}, ", sum_feed_forward ",
                           int{config.sum_feed_forward}, ", group '", g.sum_group, "'",
                           config.part == DecoderConfig::Part::whole ? "" : ", part of a layer"),
                  "no sums and no group, or a group and sums of whole layers");
  if (!sums) return;
  const auto op = c10::Dispatcher::singleton().findSchema({"anyaccel::shm_comm_pointer_call", ""});
  if (!op)
    fail_argument(where, "the op that provides sum_group is not loaded", "'" + g.sum_group + "'",
                  "a group of ShareMemCommBuilder");
  const auto found = op->typed<std::vector<std::int64_t>(const std::string&)>().call(g.sum_group);
  d.sum.group = reinterpret_cast<void*>(found.at(0));
  d.sum.add_up = reinterpret_cast<decltype(d.sum.add_up)>(found.at(2));
  d.sum.attention = config.sum_attention;
  d.sum.feed_forward = config.sum_feed_forward;
}

/// Creates the segments and checks their caches. `layers` is the number of layers; every segment
/// has caches for each of them.
std::vector<Segment> make_segments(const DecoderArguments& g, std::size_t layers) {
  std::vector<Segment> segments;
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < g.rows.size(); ++s) {
    // Without layers, there is no attention and no past.
    Segment segment{layers ? g.past[s] : 0, begin, g.rows[s], 0};
    if (segment.rows < 1 || segment.rows > g.x.size(0) - begin)
      fail_argument(where, "rows does not match x", c10::str(g.rows),
                    "positive numbers that sum to " + std::to_string(g.x.size(0)));
    begin += segment.rows;
    if (layers) {
      const Tensor& first = g.keys[s * layers];
      if (first.dim() != 4 || first.size(0) != 1)
        fail_argument(where, "a cache has the wrong shape", words(first),
                      "[1, kv_heads, capacity, head_dim]");
      segment.capacity = first.size(2);
      if (segment.past < 0 || segment.past > segment.capacity - segment.rows)
        fail_argument(
            where, "the positions are out of range for the caches",
            std::to_string(segment.past) + " + " + std::to_string(segment.rows) + " positions",
            "at most " + std::to_string(segment.capacity));
    }
    segments.push_back(segment);
  }
  if (begin != g.x.size(0))
    fail_argument(where, "rows does not match x", c10::str(g.rows),
                  "positive numbers that sum to " + std::to_string(g.x.size(0)));
  return segments;
}

/// Reads the dense feed-forward part of a layer, if it has one.
void add_feed_forward(Decoder& d, Weights& weights, DecoderLayer& layer) {
  const auto gate = weights.part("a gate", d.hidden);
  const auto up = weights.part("an up projection", d.hidden);
  if (!gate) {
    if (up || weights.part("a down projection", 0))
      fail_argument(where, "the feed-forward block lacks its gate or up projection", "none",
                    "a matrix");
    return;
  }
  const std::int64_t before = d.inner;
  d.inner = gate->matrix.outputs / (d.gated && !up ? 2 : 1);
  if (before >= 0 && before != d.inner)
    fail_argument(where, "the layers' feed-forward sizes differ", std::to_string(d.inner),
                  std::to_string(before));
  if (!d.gated) {
    layer.up = {*gate};
  } else if (up) {
    if (up->matrix.outputs != d.inner)
      fail_argument(where, "gate and up differ in their number of outputs",
                    std::to_string(up->matrix.outputs), std::to_string(d.inner));
    layer.up = {*gate, *up};
  } else {
    layer.up = {rows_of(*gate, 0, d.inner), rows_of(*gate, d.inner, d.inner)};
  }
  layer.down = weights.one("a down projection", d.inner, d.hidden);
}

/// Returns a floating-point matrix. All dimensions except the last one are flattened.
Matrix float_matrix(const char* name, const std::optional<Tensor>& tensor, at::IntArrayRef sizes,
                    const Tensor& first) {
  if (!is_given(tensor) || tensor->sizes() != sizes)
    fail_argument(where, std::string(name) + " is missing or has the wrong shape",
                  tensor ? words(*tensor) : "none", c10::str(sizes));
  check_whole(where, name, *tensor, first);
  Matrix m;
  m.format = format_of(element_of(where, name, *tensor));
  m.inputs = sizes.back();
  m.outputs = tensor->numel() / m.inputs;
  m.weight = tensor->const_data_ptr();
  return m;
}

Experts make_experts(const DecoderArguments& g, const Decoder& d, Weights& weights) {
  const auto router = weights.take(), gate_up = weights.take(), down = weights.take();
  if (!is_given(router)) {
    if (is_given(gate_up) || is_given(down))
      fail_argument(where, "experts have no router", "none", "[experts, hidden]");
    return {};
  }
  const std::int64_t count = router->dim() == 2 ? router->size(0) : 0;
  const std::int64_t inner = is_given(down) && down->dim() == 3 ? down->size(2) : 0;
  if (count < d.experts_per_token || d.experts_per_token < 1 || inner < 1 || !d.gated)
    fail_argument(
        where, "the experts do not match experts_per_token or gated",
        c10::str(d.experts_per_token, " of ", words(*router), d.gated ? "" : ", without a gate"),
        "1 <= experts_per_token <= experts, a gate, a router [experts, hidden] and matrices "
        "[experts, ..., ...]");
  if (g.x.size(0) > max_rows)
    fail_argument(where, "too many rows for experts", std::to_string(g.x.size(0)),
                  "at most " + std::to_string(max_rows));
  return {{float_matrix("a router", router, {count, d.hidden}, g.x), {}},
          float_matrix("the experts' gate and up projections", gate_up,
                       {count, 2 * inner, d.hidden}, g.x),
          float_matrix("the experts' down projections", down, {count, d.hidden, inner}, g.x)};
}

DecoderLayer make_layer(const DecoderArguments& g, const Config& config, Decoder& d,
                        Weights& weights, std::size_t i) {
  const auto kind = static_cast<NormKind>(config.values.norm);
  const auto eps = static_cast<float>(config.values.norm_eps);
  DecoderLayer layer{};
  layer.input_norm = weights.norm("an input norm", kind, d.hidden, eps);
  for (const char* name : {"a query", "a key", "a value"})
    if (auto part = weights.part(name, d.hidden)) layer.qkv.push_back(*part);
  std::int64_t outputs = 0;
  for (const Linear& part : layer.qkv) outputs += part.matrix.outputs;
  if (outputs != (d.heads + 2 * d.kv_heads) * d.head_dim)
    fail_argument(where, "the QKV projection has the wrong total number of outputs",
                  std::to_string(outputs), std::to_string((d.heads + 2 * d.kv_heads) * d.head_dim));
  layer.query_norm = weights.norm("a query norm", kind, d.head_dim, eps);
  layer.key_norm = weights.norm("a key norm", kind, d.head_dim, eps);
  d.head_norms = layer.query_norm.weight.data != nullptr;
  layer.output = weights.one("an output projection", d.heads * d.head_dim, d.hidden);
  layer.after_attention = weights.norm("a norm after attention", kind, d.hidden, eps);
  layer.post_norm = weights.norm("a norm", kind, d.hidden, eps);
  add_feed_forward(d, weights, layer);
  layer.after_feed_forward =
      weights.norm("a norm after the feed-forward block", kind, d.hidden, eps);
  layer.experts = make_experts(g, d, weights);
  const bool dense = !layer.up.empty(), experts = layer.experts.router.matrix.outputs > 0;
  if (dense == experts)
    fail_argument(where, "a layer requires either a dense feed-forward block or experts",
                  experts ? "both" : "none", "one of them");
  const std::size_t layers = config.layers.size();
  for (std::size_t s = 0; s < d.segments.size(); ++s)
    layer.caches.push_back(
        make_cache(d, d.segments[s], g.keys[s * layers + i], g.values[s * layers + i], g.x));
  layer.window = config.layers[i].window;
  const std::size_t which = layer.window > 0 && g.angles.size() == 4 ? 2 : 0;
  if (d.half) {
    layer.cos = g.angles[which].const_data_ptr<float>();
    layer.sin = g.angles[which + 1].const_data_ptr<float>();
  }
  layer.scale = static_cast<float>(config.layers[i].attention_scale);
  return layer;
}

constexpr std::size_t slots_of_layer = 8 * 2 - 4 + 7 * 4 + 3;

}  // namespace

DecoderCall make_decoder(const DecoderArguments& g) {
  check_whole(where, "x", g.x, g.x);
  if (g.x.dim() != 2 || g.x.scalar_type() != at::kFloat || g.x.size(0) < 1 ||
      g.x.size(0) > max_prefill_rows || g.x.size(1) < 1)
    fail_argument(where, "x has the wrong shape or dtype", words(g.x),
                  "float32 [1 to " + std::to_string(max_prefill_rows) + " rows, hidden]");
  const Config config(g.config);
  const std::size_t layers = config.layers.size();
  const auto half = static_cast<Half>(config.values.part);
  if (half != Half::whole) {
    if (!is_given(g.change) || g.change->scalar_type() != at::kFloat ||
        g.change->sizes() != g.x.sizes())
      fail_argument(where, "change is missing or has the wrong shape or dtype",
                    g.change ? words(*g.change) : "none", "float32 with the shape of x");
    check_whole(where, "change", *g.change, g.x);
  }
  const std::size_t caches = g.rows.size() * layers;
  if (g.past.size() != g.rows.size() || g.keys.size() != caches || g.values.size() != caches)
    fail_argument(
        where, "the lengths of the lists do not match",
        c10::str(g.past.size(), " past, ", g.rows.size(), " rows, ", g.keys.size(), " keys, ",
                 g.values.size(), " values"),
        "past and rows for each segment, and a key and a value cache for each of its layers");
  const std::size_t wanted = layers * slots_of_layer + 2 + 4;
  if (g.weights.size() != wanted)
    fail_argument(where, "wrong number of weights", std::to_string(g.weights.size()),
                  std::to_string(wanted));
  Decoder d{};
  d.hidden = g.x.size(1);
  d.heads = config.values.num_heads;
  d.kv_heads = config.values.num_kv_heads;
  d.head_dim = config.values.head_dim;
  d.gate = static_cast<Gate>(config.values.activation);
  d.gated = config.values.gated;
  d.norms_after = config.values.norms_after;
  d.normalize_experts = config.values.normalize_experts;
  d.experts_per_token = config.values.experts_per_token;
  set_groups(config.values, d);
  set_sum(g, config.values, d);
  d.softcap = static_cast<float>(config.values.attention_softcap);
  d.segments = make_segments(g, layers);
  if (!g.angles.empty()) {
    d.half = g.angles[0].dim() == 2 ? g.angles[0].size(1) : -1;
    for (const Tensor& angle : g.angles) {
      check_whole(where, "an angle", angle, g.x);
      if ((g.angles.size() != 2 && g.angles.size() != 4) || angle.scalar_type() != at::kFloat ||
          angle.dim() != 2 || angle.size(0) != g.x.size(0) || angle.size(1) != d.half ||
          2 * d.half > d.head_dim)
        fail_argument(where, "the angles have the wrong shape, dtype or number", words(angle),
                      "2 or 4 float32 tensors of shape [rows, n] with n <= head_dim / 2");
    }
  }
  Weights weights(g.weights, g.x);
  d.layers.reserve(layers);
  d.inner = -1;  // unknown until a layer with a feed-forward part is read
  for (std::size_t i = 0; i < layers; ++i) {
    const bool head_norms = d.head_norms;
    d.layers.push_back(make_layer(g, config, d, weights, i));
    if (i && head_norms != d.head_norms)
      fail_argument(where, "only some layers have QK norms", "some", "all or none");
  }
  d.inner = std::max<std::int64_t>(0, d.inner);
  d.final_norm =
      weights.norm("the last norm", static_cast<NormKind>(config.values.norm), d.hidden,
                   config.values.final_norm ? static_cast<float>(config.values.norm_eps) : -1.0F);
  if (auto head = weights.part("the head", d.hidden)) d.head = *head;
  if (d.head.matrix.outputs == 0) return {std::move(d), half};
  constexpr const char* wanted_logits = "float32 [rows or segments, outputs of the head]";
  if (!is_given(g.logits)) fail_argument(where, "logits is missing", "none", wanted_logits);
  check_whole(where, "logits", *g.logits, g.x);
  if (g.logits->scalar_type() != at::kFloat || g.logits->dim() != 2 ||
      g.logits->size(1) != d.head.matrix.outputs ||
      (g.logits->size(0) != g.x.size(0) &&
       g.logits->size(0) != static_cast<std::int64_t>(g.rows.size())))
    fail_argument(where, "logits has the wrong shape or dtype", words(*g.logits), wanted_logits);
  d.last_only = g.logits->size(0) != g.x.size(0);
  return {std::move(d), half};
}

}  // namespace anyaccel::ops
