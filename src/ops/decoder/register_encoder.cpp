// Registers torch.ops.anyaccel.inference_pack and inference_encode: schemas, argument checks,
// threading and meta kernels.
#include "kernels/decoder/encoder.h"
#include "kernels/decoder/panels.h"
#include "ops/decoder/arguments.h"
#include "ops/shared/empty.h"
#include "ops/shared/tasks.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

constexpr std::size_t weights_of_layer = 12;

char* aligned(const Tensor& scratch) {
  const auto address = reinterpret_cast<std::uintptr_t>(scratch.mutable_data_ptr());
  return reinterpret_cast<char*>((address + 63) / 64 * 64);
}

Tensor scratch_of(std::int64_t bytes) { return empty({bytes + 64}, at::TensorOptions(at::kByte)); }

void check_floats(const char* op, const char* name, const Tensor& tensor, at::IntArrayRef sizes) {
  check_on_host(op, name, tensor);
  if (tensor.scalar_type() != at::kFloat || tensor.sizes() != sizes || !tensor.is_contiguous())
    fail_argument(op, std::string(name) + " has the wrong shape or dtype", words(tensor),
                  c10::str("contiguous float32 ", sizes));
}

std::vector<std::int64_t> packed_sizes(std::int64_t outputs, std::int64_t inputs) {
  return {(outputs + panel_outputs - 1) / panel_outputs, inputs, panel_outputs};
}

void pack(const Tensor& weight, const Tensor& packed) {
  constexpr const char* op = "inference_pack";
  if (weight.dim() != 2)
    fail_argument(op, "weight is not a matrix", words(weight), "[outputs, inputs]");
  const std::int64_t outputs = weight.size(0), inputs = weight.size(1);
  check_floats(op, "weight", weight, {outputs, inputs});
  check_floats(op, "packed", packed, packed_sizes(outputs, inputs));
  const std::int64_t threads = task_threads(), bytes = (panel_scratch_bytes(inputs) + 63) / 64 * 64;
  const Tensor scratch = scratch_of(threads * bytes);
  char* const own = aligned(scratch);
  const auto* from = weight.const_data_ptr<float>();
  auto* to = static_cast<float*>(changed_memory(packed));
  const Isa isa = best_isa();
  parallel_tasks(packed.size(0), threads, [&](std::int64_t panel, std::int64_t thread) {
    pack_panels(isa, from, outputs, inputs, panel, panel + 1, own + thread * bytes, to);
  });
}

/// Returns a packed matrix with its bias.
PackedMatrix packed_matrix(const char* name, const Tensor& panels, const Tensor& bias,
                           std::int64_t outputs, std::int64_t inputs) {
  constexpr const char* op = "inference_encode";
  check_floats(op, name, panels, packed_sizes(outputs, inputs));
  check_floats(op, "a bias", bias, {outputs});
  return {outputs, inputs, panels.const_data_ptr<float>(), bias.const_data_ptr<float>()};
}

Encoder make_encoder(const Tensor& x, at::TensorList weights, at::IntArrayRef lengths,
                     std::int64_t heads, std::int64_t activation, double eps) {
  constexpr const char* op = "inference_encode";
  if (x.dim() != 2)
    fail_argument(op, "x has the wrong shape", words(x), "float32 [rows of all sequences, hidden]");
  Encoder e;
  e.hidden = x.size(1);
  check_floats(op, "x", x, {x.size(0), e.hidden});
  if (heads < 1 || e.hidden < 1 || e.hidden % heads)
    fail_argument(op, "hidden is not divisible by heads", std::to_string(heads),
                  "a divisor of " + std::to_string(e.hidden));
  e.heads = heads;
  if (activation < 0 || activation > 4)
    fail_argument(op, "activation is out of range", std::to_string(activation),
                  "0 silu, 1 gelu, 2 gelu with tanh, 3 relu or 4 relu2");
  e.gate = static_cast<Gate>(activation);
  std::int64_t left = x.size(0);
  for (const std::int64_t length : lengths) {
    if (length < 1 || length > left) break;
    e.lengths.push_back(length);
    left -= length;
  }
  if (left != 0 || e.lengths.size() != lengths.size())
    fail_argument(op, "lengths does not match x", c10::str(lengths),
                  "positive numbers that sum to " + std::to_string(x.size(0)));
  if (weights.size() % weights_of_layer)
    fail_argument(op, "wrong number of weights", std::to_string(weights.size()), "12 per layer");
  if (!weights.empty() && weights[7].dim() == 1) e.inner = weights[7].size(0);
  const auto norm = [&](std::size_t at) {
    const auto values = [&](const Tensor& tensor) {
      check_floats(op, "a norm", tensor, {e.hidden});
      return Values{const_cast<float*>(tensor.const_data_ptr<float>()), Element::f32};
    };
    return Norm{NormKind::layer, values(weights[at]), values(weights[at + 1]),
                static_cast<float>(eps)};
  };
  for (std::size_t at = 0; at < weights.size(); at += weights_of_layer) {
    const auto matrix = [&](const char* name, std::size_t place, std::int64_t outputs,
                            std::int64_t inputs) {
      return packed_matrix(name, weights[at + place], weights[at + place + 1], outputs, inputs);
    };
    e.layers.push_back({matrix("query, key and value", 0, 3 * e.hidden, e.hidden),
                        matrix("an output projection", 2, e.hidden, e.hidden),
                        matrix("an up projection", 6, e.inner, e.hidden),
                        matrix("a down projection", 8, e.hidden, e.inner), norm(at + 4),
                        norm(at + 10)});
  }
  return e;
}

void encode(const Tensor& x, at::TensorList weights, at::IntArrayRef lengths, std::int64_t heads,
            std::int64_t activation, double eps) {
  const Encoder encoder = make_encoder(x, weights, lengths, heads, activation, eps);
  const std::int64_t threads = task_threads();
  const Tensor scratch = scratch_of(encoder_scratch(encoder, threads));
  run_encoder(best_isa(), encoder, static_cast<float*>(changed_memory(x)), aligned(scratch),
              threads);
}

void pack_meta(const Tensor&, const Tensor&) {}
void encode_meta(const Tensor&, at::TensorList, at::IntArrayRef, std::int64_t, std::int64_t,
                 double) {}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def("inference_pack(Tensor weight, Tensor(a!) packed) -> ()");
  m.def(
      "inference_encode(Tensor(a!) x, Tensor[] weights, int[] lengths, int heads, int activation, "
      "float eps) -> ()");
}
TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("inference_pack", pack);
  m.impl("inference_encode", encode);
}
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("inference_pack", pack_meta);
  m.impl("inference_encode", encode_meta);
}

}  // namespace
}  // namespace anyaccel::ops
