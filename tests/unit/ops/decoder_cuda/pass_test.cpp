// Runs a CUDA decoder pass on the host (decoder_cuda_launches.cpp) and compares it with the CPU
// pass over the same model.
#include "kernels/decoder/cuda/pass.h"
#include "unit/kernels/decoder_cuda_launches.h"
#include "unit/kernels/device_elements.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

using MatrixFormat = anyaccel::ops::Format;

/// A random model with its sequences. Owns all memory that `decoder` points to.
class Model {
 public:
  static constexpr std::int64_t expert_inner = 131;  // larger than in layers without experts
  struct Kind {
    MatrixFormat format = MatrixFormat::f32;
    Element cache = Element::f32;
    NormKind norm = NormKind::rms;
    Gate gate = Gate::silu;
    bool gated = true, norms_after = false, head_norms = false, bias = false, split = false,
         head = true, zeros = false, mixed = false;
    std::int64_t experts = 0, window = 0, group = 0, first_head = 0;
    float softcap = 0;
    std::int64_t hidden = 64, heads = 4, kv_heads = 2, dim = 16, half = 8, inner = 96, layers = 2;
  };
  struct Sequence {
    std::int64_t past, rows;
  };

  Model(const Kind& kind, std::uint64_t seed) : kind_(kind), random_(seed) {
    Decoder& d = decoder;
    d = {};
    d.hidden = kind.hidden;
    d.heads = kind.heads;
    d.kv_heads = kind.kv_heads;
    d.head_dim = kind.dim;
    d.group = kind.group ? kind.group : kind.heads / kind.kv_heads;
    d.first_head = kind.first_head;
    d.inner = kind.inner;
    d.half = kind.half;
    d.gate = kind.gate;
    d.gated = kind.gated;
    d.head_norms = kind.head_norms;
    d.norms_after = kind.norms_after;
    d.experts_per_token = kind.experts ? 2 : 0;
    d.normalize_experts = true;
    d.softcap = kind.softcap;
    const std::int64_t queries = kind.heads * kind.dim, keys = kind.kv_heads * kind.dim;
    for (std::int64_t i = 0; i < kind.layers; ++i) {
      DecoderLayer layer{};
      layer.input_norm = norm(kind.hidden);
      layer.post_norm = norm(kind.hidden);
      if (kind.head_norms) {
        layer.query_norm = norm(kind.dim);
        layer.key_norm = norm(kind.dim);
      }
      if (kind.norms_after) {
        layer.after_attention = norm(kind.hidden);
        layer.after_feed_forward = norm(kind.hidden);
      }
      if (kind.split)
        layer.qkv = {part(queries, kind.hidden), part(keys, kind.hidden), part(keys, kind.hidden)};
      else
        layer.qkv = {part(queries + 2 * keys, kind.hidden)};
      layer.output = part(kind.hidden, queries);
      if (kind.experts && i % 2 == 0) {
        layer.experts = {{matrix(kind.experts, kind.hidden), {}},
                         matrix(kind.experts * 2 * expert_inner, kind.hidden),
                         matrix(kind.experts * kind.hidden, expert_inner)};
      } else {
        layer.up = {part(kind.inner, kind.hidden)};
        if (kind.gated) layer.up.push_back(part(kind.inner, kind.hidden));
        layer.down = part(kind.hidden, kind.inner);
      }
      layer.window = i % 2 == 0 ? kind.window : 0;
      layer.scale = 1 / std::sqrt(static_cast<float>(kind.dim));
      d.layers.push_back(layer);
    }
    d.final_norm = norm(kind.hidden);
    if (kind.head) d.head = part(41, kind.hidden);
  }

  /// Fills the caches with random numbers, so that past positions affect the results.
  void set_sequences(const std::vector<Sequence>& sequences) {
    std::int64_t begin = 0;
    decoder.segments.clear();
    for (DecoderLayer& layer : decoder.layers) layer.caches.clear();
    for (const Sequence& each : sequences) {
      const Segment segment{each.past, begin, each.rows, each.past + each.rows + 3};
      decoder.segments.push_back(segment);
      begin += each.rows;
      for (DecoderLayer& layer : decoder.layers) {
        const auto cache = [&] {
          return values(kind_.cache, kind_.kv_heads * segment.capacity * kind_.dim, 1);
        };
        layer.caches.push_back({cache(), cache()});
      }
    }
    rows = begin;
    for (DecoderLayer& layer : decoder.layers) {
      layer.cos = floats(rows * kind_.half);
      layer.sin = floats(rows * kind_.half);
    }
  }

  /// Returns the logits, or the rows if the model has no head. `run` is the CPU or the CUDA pass.
  template <typename Run>
  std::vector<float> logits(const std::vector<float>& x, const Run& run) {
    std::vector<float> changed = x;
    const std::int64_t outputs = decoder.head.matrix.outputs;
    const auto count =
        decoder.last_only ? static_cast<std::int64_t>(decoder.segments.size()) : rows;
    std::vector<float> out(static_cast<std::size_t>(count * outputs));
    run(decoder, changed.data(), out.data());
    return outputs ? out : changed;
  }

  /// The contents of the caches, so that a test can restore them.
  std::vector<Array> caches() const { return caches_; }
  void set_caches(const std::vector<Array>& from) {
    for (std::size_t i = 0; i < from.size(); ++i)
      for (std::int64_t k = 0; k < from[i].size(); ++k) caches_[i].set(k, from[i].get(k));
  }

  std::vector<float> drawn_rows() {
    std::vector<float> x(static_cast<std::size_t>(rows * kind_.hidden));
    for (float& value : x) value = static_cast<float>(random_.between(-1, 1));
    return x;
  }

  Decoder decoder;
  std::int64_t rows = 0;

 private:
  Values values(Element type, std::int64_t size, double greatest, double base = 0) {
    Array array(type, size, 0);
    for (std::int64_t i = 0; i < size; ++i)
      array.set(i, base + random_.between(-greatest, greatest));
    // Moving an Array keeps its data at the same address.
    caches_.push_back(std::move(array));
    return {caches_.back().data(), type};
  }
  const float* floats(std::int64_t size) {
    return static_cast<const float*>(values(Element::f32, size + 1, 1).data);
  }
  Norm norm(std::int64_t size) {
    const Element type = random_.element();
    return {kind_.norm, values(type, size, 0.3, kind_.norm == NormKind::rms_plus_one ? 0 : 1),
            kind_.norm == NormKind::layer ? values(type, size, 0.3) : Values{}, 1e-5F};
  }
  Matrix matrix(std::int64_t outputs, std::int64_t inputs, bool any = false) {
    Matrix m;
    m.outputs = outputs;
    m.inputs = inputs;
    m.format = any && kind_.mixed ? static_cast<MatrixFormat>(random_.whole(0, 4))
               : any || kind_.format <= MatrixFormat::fp16 ? kind_.format
                                                           : MatrixFormat::f32;
    if (m.format <= MatrixFormat::fp16) {
      const double greatest = 1.7 / std::sqrt(static_cast<double>(inputs));
      m.weight = values(static_cast<Element>(m.format), outputs * inputs, greatest).data;
      return m;
    }
    m.group = inputs % 64 == 0 && random_.once_in(2) ? 64 : 32;
    const std::int64_t bytes = outputs * inputs / (m.format == MatrixFormat::int4 ? 2 : 1);
    const std::int64_t groups = outputs * inputs / m.group;
    bytes_.emplace_back();
    for (std::int64_t i = 0; i < bytes; ++i)
      bytes_.back().push_back(static_cast<std::uint8_t>(random_.whole(0, 255)));
    m.weight = bytes_.back().data();
    const double step =
        1.7 / std::sqrt(static_cast<double>(inputs)) / (m.format == MatrixFormat::int4 ? 8 : 127);
    m.scales = static_cast<const float*>(values(Element::f32, groups, step / 2, step).data);
    if (m.format != MatrixFormat::int4 || !kind_.zeros) return m;
    bytes_.emplace_back();
    for (std::int64_t i = 0; i < groups; ++i)
      bytes_.back().push_back(static_cast<std::uint8_t>(random_.whole(0, 15)));
    m.zeros = bytes_.back().data();
    return m;
  }
  Linear part(std::int64_t outputs, std::int64_t inputs) {
    return {matrix(outputs, inputs, true),
            kind_.bias ? values(random_.element(), outputs, 0.2) : Values{}};
  }

  Kind kind_;
  Random random_;
  std::vector<Array> caches_;  ///< all arrays, including caches
  std::vector<std::vector<std::uint8_t>> bytes_;
};

void at_once_on_cpu(const Decoder& d, float* x, float* logits) {
  std::vector<char> scratch(static_cast<std::size_t>(decoder_scratch(d, 1)) + 64);
  const auto address = (reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64;
  run_decoder(Isa::scalar, d, x, logits, reinterpret_cast<void*>(address), 1);
}

/// Runs the pass in chunks of at most `max_rows` rows.
void on_cpu(const Decoder& d, float* x, float* logits) {
  for (std::size_t s = 0; s < d.segments.size(); ++s)
    for (std::int64_t i = 0; i < d.segments[s].rows; i += max_rows) {
      const Segment& whole = d.segments[s];
      const std::int64_t row = whole.begin + i;
      Decoder part = d;
      part.segments = {{whole.past + i, 0, std::min(max_rows, whole.rows - i), whole.capacity}};
      for (DecoderLayer& layer : part.layers) {
        layer.caches = {layer.caches[s]};
        if (layer.cos) layer.cos += row * d.half;
        if (layer.sin) layer.sin += row * d.half;
      }
      const std::int64_t at = d.last_only ? static_cast<std::int64_t>(s) : row;
      at_once_on_cpu(part, x + row * d.hidden, logits + at * d.head.matrix.outputs);
    }
}

/// Runs the pass with scratch memory initialized to NaN.
void on_cuda(const Decoder& d, float* x, float* logits, Half half, float* change) {
  std::vector<float> scratch(static_cast<std::size_t>(cuda_decoder_scratch(d)) / 4 + 4,
                             std::nanf(""));
  const auto address = (reinterpret_cast<std::uintptr_t>(scratch.data()) + 15) / 16 * 16;
  ASSERT_EQ(run_cuda_decoder(d, x, logits, reinterpret_cast<void*>(address), half, change, nullptr),
            nullptr);
}
void on_cuda(const Decoder& d, float* x, float* logits) {
  on_cuda(d, x, logits, Half::whole, nullptr);
}

void expect_near(const std::vector<float>& ours, const std::vector<float>& wanted, double error) {
  ASSERT_EQ(ours.size(), wanted.size());
  double greatest = 0;
  for (const float value : wanted) greatest = std::max(greatest, std::abs(double{value}));
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_NEAR(ours[i], wanted[i], error * greatest) << i;
}

std::vector<Model::Kind> kinds() {
  using K = Model::Kind;
  return {
      K{},
      K{.format = MatrixFormat::bf16, .cache = Element::bf16, .bias = true, .split = true},
      K{.format = MatrixFormat::fp16,
        .cache = Element::fp16,
        .norm = NormKind::rms_plus_one,
        .gate = Gate::gelu_tanh,
        .norms_after = true,
        .head_norms = true,
        .window = 4,
        .softcap = 3},
      K{.norm = NormKind::layer,
        .gate = Gate::gelu,
        .gated = false,
        .bias = true,
        .kv_heads = 4,
        .half = 0},
      K{.norm = NormKind::layer,
        .gate = Gate::relu,
        .gated = false,
        .head = false,
        .hidden = 70,
        .heads = 6,
        .kv_heads = 3,
        .dim = 22,
        .half = 5,
        .inner = 37},
      K{.format = MatrixFormat::int8, .cache = Element::bf16, .gate = Gate::relu2, .split = true},
      K{.format = MatrixFormat::int4, .zeros = true},
      K{.group = 3, .first_head = 2, .heads = 5, .kv_heads = 3},
      K{.format = MatrixFormat::int4, .bias = true, .split = true, .zeros = true, .mixed = true},
      K{.experts = 5, .layers = 3},
      K{.format = MatrixFormat::bf16,
        .gate = Gate::gelu,
        .norms_after = true,
        .experts = 3,
        .hidden = 70,
        .dim = 22,
        .half = 11}};
}

// Fails if a step of a layer is skipped, or a sequence attends to another sequence. With more than
// 16 rows, also fails if rows do not attend to earlier rows of the pass.
TEST(InferenceCudaPass, MatchesTheCpu) {
  std::uint64_t seed = 100;
  for (const Model::Kind& kind : kinds())
    for (const std::vector<Model::Sequence>& sequences : std::vector<std::vector<Model::Sequence>>{
             {{0, 1}}, {{7, 3}, {0, 2}, {300, 1}}, {{5, 11}, {2, 5}}, {{4, 18}, {0, 5}, {9, 1}}}) {
      Model model(kind, ++seed);
      model.set_sequences(sequences);
      launches_backwards = seed % 2 == 0;
      const std::vector<float> x = model.drawn_rows();
      const std::vector<Array> before = model.caches();
      // For int8 and int4, the CPU pass rounds rows to 16 bits, but the CUDA pass does not.
      const double error = kind.format > MatrixFormat::fp16 ? 1e-3
                           : kind.cache == Element::f32     ? 1e-4
                                                            : 2e-2;
      for (const bool last_only : {false, true}) {
        model.decoder.last_only = last_only;
        model.set_caches(before);
        const auto wanted = model.logits(x, on_cpu);
        model.set_caches(before);
        const auto ours =
            model.logits(x, static_cast<void (*)(const Decoder&, float*, float*)>(on_cuda));
        expect_near(ours, wanted, error);
      }
    }
}

// Fails if a row's bits depend on other rows or sequences in the pass. Also covers passes with more
// rows than one launch accepts.
TEST(InferenceCudaPass, RowsDoNotDependOnOtherRows) {
  std::uint64_t seed = 200;
  const auto run = static_cast<void (*)(const Decoder&, float*, float*)>(on_cuda);
  for (const Model::Kind& kind : kinds()) {
    Model model(kind, ++seed);
    model.set_sequences({{250, 21}, {3, 2}});
    launches_backwards = seed % 2 == 0;
    const std::vector<float> x = model.drawn_rows();
    const std::vector<Array> before = model.caches();
    const auto together = model.logits(x, run);
    model.set_caches(before);
    const Decoder all = model.decoder;
    std::vector<float> alone;
    for (std::size_t s = 0; s < all.segments.size(); ++s)
      for (std::int64_t i = 0; i < all.segments[s].rows; ++i) {
        const std::int64_t row = all.segments[s].begin + i;
        model.decoder = all;
        model.decoder.segments = {{all.segments[s].past + i, 0, 1, all.segments[s].capacity}};
        for (DecoderLayer& layer : model.decoder.layers) {
          layer.caches = {layer.caches[s]};
          layer.cos += row * kind.half;
          layer.sin += row * kind.half;
        }
        model.rows = 1;
        const auto one =
            model.logits({x.begin() + row * kind.hidden, x.begin() + (row + 1) * kind.hidden}, run);
        alone.insert(alone.end(), one.begin(), one.end());
      }
    EXPECT_EQ(alone, together);
  }
}

// Fails if the results of the attention half and the feed-forward half do not add up to the result
// of the whole pass, or one of the halves modifies the rows.
TEST(InferenceCudaPass, HalvesEqualTheWhole) {
  for (const std::int64_t experts : {0, 4}) {
    Model model({.bias = true, .experts = experts, .layers = 1}, 300);
    model.set_sequences({{5, 18}});
    const std::vector<float> x = model.drawn_rows();
    const auto whole =
        model.logits(x, static_cast<void (*)(const Decoder&, float*, float*)>(on_cuda));
    Decoder layers = model.decoder, last = model.decoder;
    layers.head = {};
    last.layers.clear();
    std::vector<float> rows = x, change(x.size()), out(whole.size());
    for (const Half half : {Half::attention, Half::feed_forward}) {
      const std::vector<float> before = rows;
      on_cuda(layers, rows.data(), nullptr, half, change.data());
      EXPECT_EQ(rows, before);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += change[i];
    }
    on_cuda(last, rows.data(), out.data());
    expect_near(out, whole, 1e-5);
  }
}

}  // namespace
