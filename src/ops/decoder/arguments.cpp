#include "ops/decoder/arguments.h"

#include <algorithm>

#include "ATen/core/dispatch/Dispatcher.h"

#include "kernels/decoder/prefill.h"

namespace anyaccel::ops {
namespace {

constexpr const char* where = "inference_decode";

Format format_of(Element element) {
  return element == Element::f32 ? Format::f32 : element == Element::bf16 ? Format::bf16 : Format::fp16;
}

bool given(const std::optional<Tensor>& tensor) { return tensor && tensor->defined(); }

/// Reads the flat list of weights.
class Weights {
 public:
  Weights(const OptionalTensors& list, const Tensor& first) : list_(list), first_(first) {}

  std::optional<Tensor> take() { return list_.get(at_++); }
  std::size_t left() const { return list_.size() - at_; }

  Values values(const char* name, std::int64_t count) {
    const auto tensor = take();
    if (!given(tensor)) return {};
    check_whole(where, name, *tensor, first_);
    if (tensor->numel() != count)
      refuse(where, std::string(name) + " has another size", words(*tensor), std::to_string(count) + " values");
    return {const_cast<void*>(tensor->const_data_ptr()), element_of(where, name, *tensor)};
  }

  Norm norm(const char* name, NormKind kind, std::int64_t count, float eps) {
    const Values weight = values(name, count);
    return {kind, weight, values(name, count), eps};
  }

  /// Of `inputs`; nothing where there is no such weight.
  std::optional<Part> part(const char* name, std::int64_t inputs) {
    const auto weight = take(), scales = take(), zeros = take();
    if (!given(weight)) {
      take();
      return std::nullopt;
    }
    Part part{make_matrix(where, name, *weight, scales, zeros, first_), {}};
    if (part.matrix.inputs != inputs)
      refuse(where, std::string(name) + " has another number of inputs", words(*weight), std::to_string(inputs));
    part.bias = values(name, part.matrix.outputs);
    return part;
  }

  Part one(const char* name, std::int64_t inputs, std::int64_t outputs) {
    auto found = part(name, inputs);
    if (!found || found->matrix.outputs != outputs)
      refuse(where, std::string(name) + " is not there or has another number of outputs",
             found ? std::to_string(found->matrix.outputs) : "none", std::to_string(outputs));
    return *found;
  }

 private:
  const OptionalTensors& list_;
  const Tensor& first_;
  std::size_t at_ = 0;
};

/// Outputs [begin, begin + count) of a part.
Part rows_of(const Part& part, std::int64_t begin, std::int64_t count) {
  Part out = part;
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
  if (out.bias.data) out.bias.data = static_cast<char*>(out.bias.data) + begin * size_of(out.bias.type);
  return out;
}

std::int64_t size_at(const DecoderGiven& g, std::size_t i, std::int64_t least, std::int64_t most, const char* name) {
  if (g.sizes[i] < least || g.sizes[i] > most)
    refuse(where, std::string(name) + " is out of range", std::to_string(g.sizes[i]),
           std::to_string(least) + " to " + std::to_string(most));
  return g.sizes[i];
}

Values cache_values(const Decoder& d, const Segment& segment, const Tensor& cache, const Tensor& first) {
  check_whole(where, "a cache", cache, first);
  if (cache.sizes() != at::IntArrayRef({1, d.kv_heads, segment.capacity, d.head_dim}))
    refuse(where, "a cache has another shape", words(cache),
           "[1, kv_heads, capacity, head_dim] as the first one's of its segment");
  return {cache.mutable_data_ptr(), element_of(where, "a cache", cache)};
}

Cache make_cache(const Decoder& d, const Segment& segment, const Tensor& keys, const Tensor& values,
                 const Tensor& first) {
  const Cache cache{cache_values(d, segment, keys, first), cache_values(d, segment, values, first)};
  if (cache.keys.type != cache.values.type)
    refuse(where, "keys and values differ in dtype", words(values), words(keys));
  return cache;
}

/// Which query heads share a key head.
void set_groups(const DecoderGiven& g, Decoder& d) {
  if (g.sizes.size() == 7) {
    if (d.heads % d.kv_heads)
      refuse(where, "kv_heads does not divide heads", std::to_string(d.kv_heads),
             "a divisor of " + std::to_string(d.heads) + ", or the two sizes that say which heads share a key");
    d.group = d.heads / d.kv_heads;
    return;
  }
  d.group = size_at(g, 7, 1, 1 << 20, "the number of heads that share a key head");
  d.first_head = size_at(g, 8, 0, d.group - 1, "the number of heads in front of the first one");
  if (d.key_head(d.heads - 1) != d.kv_heads - 1)
    refuse(where, "the heads do not fit their key heads",
           c10::str(d.heads, " heads, ", d.group, " a key head from ", d.first_head, " on, and ", d.kv_heads,
                    " key heads"),
           std::to_string(d.key_head(d.heads - 1) + 1) + " key heads");
}

/// How other ranks' parts are added.
void set_sum(const DecoderGiven& g, Decoder& d) {
  if (g.sums < 0 || g.sums > 3 || (g.sums != 0) != !g.sum_group.empty() || (g.sums && g.half))
    refuse(where, "there are no such sums",
           c10::str(g.sums, " of group '", g.sum_group, "'", g.half ? ", of half a layer" : ""),
           "0 and no group, or 1 after attention + 2 after the feed-forward part of whole layers, and a group");
  if (g.sums == 0) return;
  const auto op = c10::Dispatcher::singleton().findSchema({"anyaccel::shm_comm_pointer_call", ""});
  if (!op) refuse(where, "the op of that group is not loaded", "'" + g.sum_group + "'", "one of ShareMemCommBuilder");
  const auto found = op->typed<std::vector<std::int64_t>(const std::string&)>().call(g.sum_group);
  d.sum.group = reinterpret_cast<void*>(found.at(0));
  d.sum.add_up = reinterpret_cast<decltype(d.sum.add_up)>(found.at(2));
  d.sum.attention = g.sums & 1;
  d.sum.feed_forward = g.sums & 2;
}

/// `layers`: of which each segment has caches.
std::vector<Segment> make_segments(const DecoderGiven& g, std::size_t layers) {
  std::vector<Segment> segments;
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < g.rows.size(); ++s) {
    Segment segment{layers ? g.past[s] : 0, begin, g.rows[s], 0};  // without layers nothing is seen
    if (segment.rows < 1 || segment.rows > g.x.size(0) - begin)
      refuse(where, "the segments' rows are not those of x", c10::str(g.rows), std::to_string(g.x.size(0)) + " in all");
    begin += segment.rows;
    if (layers) {
      const Tensor& first = g.keys[s * layers];
      if (first.dim() != 4 || first.size(0) != 1)
        refuse(where, "a cache has another shape", words(first), "[1, kv_heads, capacity, head_dim]");
      segment.capacity = first.size(2);
      if (segment.past < 0 || segment.past > segment.capacity - segment.rows)
        refuse(where, "the caches have no room",
               std::to_string(segment.past) + " + " + std::to_string(segment.rows) + " positions",
               "at most " + std::to_string(segment.capacity));
    }
    segments.push_back(segment);
  }
  if (begin != g.x.size(0))
    refuse(where, "the segments' rows are not those of x", c10::str(g.rows), std::to_string(g.x.size(0)) + " in all");
  return segments;
}

/// Unless the layer has experts in its place.
void add_feed_forward(Decoder& d, Weights& weights, DecoderLayer& layer) {
  const auto gate = weights.part("a gate", d.hidden);
  const auto up = weights.part("an up projection", d.hidden);
  if (!gate) {
    if (up || weights.part("a down projection", 0))
      refuse(where, "the feed-forward part has no first matrix", "none", "one");
    return;
  }
  const std::int64_t before = d.inner;
  d.inner = gate->matrix.outputs / (d.gated && !up ? 2 : 1);
  if (before >= 0 && before != d.inner)
    refuse(where, "layers differ in size", std::to_string(d.inner), std::to_string(before));
  if (!d.gated) {
    layer.up = {*gate};
  } else if (up) {
    if (up->matrix.outputs != d.inner)
      refuse(where, "gate and up differ", std::to_string(up->matrix.outputs), std::to_string(d.inner));
    layer.up = {*gate, *up};
  } else {
    layer.up = {rows_of(*gate, 0, d.inner), rows_of(*gate, d.inner, d.inner)};
  }
  layer.down = weights.one("a down projection", d.inner, d.hidden);
}

/// Of floats; their first dimensions as one.
Matrix float_matrix(const char* name, const std::optional<Tensor>& tensor, at::IntArrayRef sizes, const Tensor& first) {
  if (!given(tensor) || tensor->sizes() != sizes)
    refuse(where, std::string(name) + " is not there or has another shape", tensor ? words(*tensor) : "none",
           c10::str(sizes));
  check_whole(where, name, *tensor, first);
  Matrix m;
  m.format = format_of(element_of(where, name, *tensor));
  m.inputs = sizes.back();
  m.outputs = tensor->numel() / m.inputs;
  m.weight = tensor->const_data_ptr();
  return m;
}

Experts make_experts(const DecoderGiven& g, const Decoder& d, Weights& weights) {
  const auto router = weights.take(), gate_up = weights.take(), down = weights.take();
  if (!given(router)) {
    if (given(gate_up) || given(down)) refuse(where, "experts have no router", "none", "[experts, hidden]");
    return {};
  }
  const std::int64_t count = router->dim() == 2 ? router->size(0) : 0;
  const std::int64_t inner = given(down) && down->dim() == 3 ? down->size(2) : 0;
  if (count < d.experts_per_token || d.experts_per_token < 1 || inner < 1 || !d.gated)
    refuse(where, "the experts do not fit",
           c10::str(d.experts_per_token, " of ", words(*router), d.gated ? "" : ", without a gate"),
           "1 or more that a row takes of a router's [experts, hidden], with a gate and matrices [experts, ..., ...]");
  if (g.x.size(0) > most_rows)
    refuse(where, "there are too many rows for experts", std::to_string(g.x.size(0)),
           "at most " + std::to_string(most_rows));
  return {{float_matrix("a router", router, {count, d.hidden}, g.x), {}},
          float_matrix("the experts' first matrix", gate_up, {count, 2 * inner, d.hidden}, g.x),
          float_matrix("the experts' second matrix", down, {count, d.hidden, inner}, g.x)};
}

DecoderLayer make_layer(const DecoderGiven& g, Decoder& d, Weights& weights, std::size_t i, NormKind kind, float eps) {
  DecoderLayer layer{};
  layer.input_norm = weights.norm("an input norm", kind, d.hidden, eps);
  for (const char* name : {"a query", "a key", "a value"})
    if (auto part = weights.part(name, d.hidden)) layer.qkv.push_back(*part);
  std::int64_t outputs = 0;
  for (const Part& part : layer.qkv) outputs += part.matrix.outputs;
  if (outputs != (d.heads + 2 * d.kv_heads) * d.head_dim)
    refuse(where, "query, key and value together have another number of outputs", std::to_string(outputs),
           std::to_string((d.heads + 2 * d.kv_heads) * d.head_dim));
  layer.query_norm = weights.norm("a query norm", kind, d.head_dim, eps);
  layer.key_norm = weights.norm("a key norm", kind, d.head_dim, eps);
  d.head_norms = layer.query_norm.weight.data != nullptr;
  layer.output = weights.one("an output projection", d.heads * d.head_dim, d.hidden);
  layer.after_attention = weights.norm("a norm after attention", kind, d.hidden, eps);
  layer.post_norm = weights.norm("a norm", kind, d.hidden, eps);
  add_feed_forward(d, weights, layer);
  layer.after_feed_forward = weights.norm("a norm after the feed-forward part", kind, d.hidden, eps);
  layer.experts = make_experts(g, d, weights);
  const bool dense = !layer.up.empty(), experts = layer.experts.router.matrix.outputs > 0;
  if (dense == experts)
    refuse(where, "the feed-forward part has no first matrix, or two kinds of them", experts ? "both" : "none",
           "a first matrix or experts");
  const std::size_t layers = g.numbers.size() - 2;
  for (std::size_t s = 0; s < d.segments.size(); ++s)
    layer.caches.push_back(make_cache(d, d.segments[s], g.keys[s * layers + i], g.values[s * layers + i], g.x));
  layer.window = g.windows.empty() ? 0 : g.windows[i];
  const std::size_t which = layer.window > 0 && g.angles.size() == 4 ? 2 : 0;
  if (d.half) {
    layer.cos = g.angles[which].const_data_ptr<float>();
    layer.sin = g.angles[which + 1].const_data_ptr<float>();
  }
  layer.scale = static_cast<float>(g.numbers[2 + i]);
  return layer;
}

constexpr std::size_t slots_of_layer = 8 * 2 - 4 + 7 * 4 + 3;

}  // namespace

void check_whole(const char* op, const char* name, const Tensor& tensor, const Tensor& first) {
  check_dense_on(op, name, tensor, first);
  if (!tensor.is_contiguous()) refuse(op, std::string(name) + " has gaps", words(tensor), "a contiguous tensor");
}

Matrix make_matrix(const char* op, const char* name, const Tensor& weight, const std::optional<Tensor>& scales,
                   const std::optional<Tensor>& zeros, const Tensor& first) {
  check_whole(op, name, weight, first);
  if (weight.dim() != 2) refuse(op, std::string(name) + " is not a matrix", words(weight), "[outputs, inputs]");
  Matrix m;
  m.outputs = weight.size(0);
  m.inputs = weight.size(1);
  m.weight = weight.const_data_ptr();
  if (weight.scalar_type() != at::kChar && weight.scalar_type() != at::kByte) {
    m.format = format_of(element_of(op, name, weight));
    return m;
  }
  m.format = weight.scalar_type() == at::kChar ? Format::int8 : Format::int4;
  if (m.format == Format::int4) m.inputs *= 2;
  if (!given(scales) || scales->scalar_type() != at::kFloat || scales->dim() != 2 || scales->size(0) != m.outputs ||
      scales->size(1) < 1 || m.inputs % scales->size(1) || m.inputs / scales->size(1) % 32)
    refuse(op, std::string("the scales of ") + name + " do not fit", scales ? words(*scales) : "none",
           "float32 [outputs, groups] with groups of a multiple of 32 inputs");
  check_whole(op, name, *scales, first);
  m.scales = scales->const_data_ptr<float>();
  m.group = m.inputs / scales->size(1);
  if (!given(zeros)) return m;
  check_whole(op, name, *zeros, first);
  if (m.format == Format::int8 || zeros->scalar_type() != at::kByte || zeros->sizes() != scales->sizes())
    refuse(op, std::string("the zeros of ") + name + " do not fit", words(*zeros),
           "uint8 of the scales' shape, with 4 bits");
  m.zeros = zeros->const_data_ptr<std::uint8_t>();
  return m;
}

Decoder make_decoder(const DecoderGiven& g) {
  check_whole(where, "x", g.x, g.x);
  if (g.x.dim() != 2 || g.x.scalar_type() != at::kFloat || g.x.size(0) < 1 || g.x.size(0) > most_prefill_rows ||
      g.x.size(1) < 1)
    refuse(where, "x does not fit", words(g.x),
           "float32 [1 to " + std::to_string(most_prefill_rows) + " rows, hidden]");
  const std::size_t layers = g.numbers.size() < 2 ? 0 : g.numbers.size() - 2;
  if (g.half < 0 || g.half > 2 || (g.half && layers != 1))
    refuse(where, "there is no such half of the layers", std::to_string(g.half) + " of " + std::to_string(layers),
           "0 for all, 1 for the attention or 2 for the feed-forward part of one layer");
  if (g.half && (!given(g.change) || g.change->scalar_type() != at::kFloat || g.change->sizes() != g.x.sizes()))
    refuse(where, "the change does not fit", g.change ? words(*g.change) : "none", "float32 of the shape of x");
  if (g.half) check_whole(where, "change", *g.change, g.x);
  const std::size_t caches = g.rows.size() * layers;
  if ((g.sizes.size() != 7 && g.sizes.size() != 9) || g.past.size() != g.rows.size() || g.keys.size() != caches ||
      g.values.size() != caches || g.numbers.size() != 2 + layers || (!g.windows.empty() && g.windows.size() != layers))
    refuse(where, "the lists' lengths do not fit",
           c10::str(g.sizes.size(), ", ", g.past.size(), ", ", g.rows.size(), ", ", g.keys.size(), ", ",
                    g.values.size(), ", ", g.numbers.size(), ", ", g.windows.size()),
           "7 or 9 sizes, past and rows of each segment, a key and a value cache for each of its layers, 2 + layers "
           "numbers, no windows or one for each layer");
  const std::size_t wanted = layers * slots_of_layer + 2 + 4;
  if (g.weights.size() != wanted)
    refuse(where, "there is another number of weights", std::to_string(g.weights.size()), std::to_string(wanted));
  constexpr std::int64_t many = 1 << 20;
  Decoder d{};
  d.hidden = g.x.size(1);
  d.heads = size_at(g, 0, 1, many, "heads");
  d.kv_heads = size_at(g, 1, 1, d.heads, "kv_heads");
  d.head_dim = size_at(g, 2, 1, most_head_dim, "head_dim");
  const auto kind = static_cast<NormKind>(size_at(g, 3, 0, 2, "the kind of norm"));
  d.gate = static_cast<Gate>(size_at(g, 4, 0, 4, "the activation"));
  const std::int64_t flags = size_at(g, 5, 0, 15, "the flags");
  d.gated = flags & 1;
  d.norms_after = flags & 2;
  d.normalize_experts = flags & 8;
  d.experts_per_token = size_at(g, 6, 0, 1 << 16, "the number of experts that a row takes");
  set_groups(g, d);
  set_sum(g, d);
  const auto eps = static_cast<float>(g.numbers[0]);
  d.softcap = static_cast<float>(g.numbers[1]);
  d.segments = make_segments(g, layers);
  if (!g.angles.empty()) {
    d.half = g.angles[0].dim() == 2 ? g.angles[0].size(1) : -1;
    for (const Tensor& angle : g.angles) {
      check_whole(where, "an angle", angle, g.x);
      if ((g.angles.size() != 2 && g.angles.size() != 4) || angle.scalar_type() != at::kFloat || angle.dim() != 2 ||
          angle.size(0) != g.x.size(0) || angle.size(1) != d.half || 2 * d.half > d.head_dim)
        refuse(where, "the angles do not fit", words(angle), "2 or 4 float32 [rows, at most head_dim / 2]");
    }
  }
  Weights weights(g.weights, g.x);
  d.layers.reserve(layers);
  d.inner = -1;  // until a layer says it
  for (std::size_t i = 0; i < layers; ++i) {
    const bool head_norms = d.head_norms;
    d.layers.push_back(make_layer(g, d, weights, i, kind, eps));
    if (i && head_norms != d.head_norms)
      refuse(where, "layers differ", "norms of heads in some of them", "in all or none");
  }
  d.inner = std::max<std::int64_t>(0, d.inner);
  const bool final_norm = flags & 4;
  d.final_norm = weights.norm("the last norm", kind, d.hidden, final_norm ? eps : -1.0F);
  if (auto head = weights.part("the head", d.hidden)) d.head = *head;
  if (d.head.matrix.outputs == 0) return d;
  constexpr const char* wanted_logits = "float32 [rows, or segments for their last rows, outputs of the head]";
  if (!given(g.logits)) refuse(where, "there are no logits to write", "none", wanted_logits);
  check_whole(where, "logits", *g.logits, g.x);
  if (g.logits->scalar_type() != at::kFloat || g.logits->dim() != 2 || g.logits->size(1) != d.head.matrix.outputs ||
      (g.logits->size(0) != g.x.size(0) && g.logits->size(0) != static_cast<std::int64_t>(g.rows.size())))
    refuse(where, "logits do not fit", words(*g.logits), wanted_logits);
  d.last_only = g.logits->size(0) != g.x.size(0);
  return d;
}

}  // namespace anyaccel::ops
