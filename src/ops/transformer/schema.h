// Registers torch.ops.anyaccel.<ANYACCEL_TRANSFORMER_NAME>, a transformer layer, and its forward
// and backward ops: schemas, meta kernels and autograd. Included only by an op's register.cpp.
#include <array>
#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"
#include "ops/transformer/arguments.h"
#include "ops/transformer/passes.h"
#include "torch/csrc/autograd/autograd_not_implemented_fallback.h"
#include "torch/csrc/autograd/custom_function.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

#define GIVEN ANYACCEL_TRANSFORMER_GIVEN
#define PASSED ANYACCEL_TRANSFORMER_PASSED
#define KEPT                                                                                 \
  const Tensor &output, const Tensor &inp_norm, const Tensor &qkv, const Tensor &attn_stats, \
      const Tensor &attn_out, const Tensor &add_res, const Tensor &ff1_inp,                  \
      const Tensor &gelu_inp, const Tensor &ff2_inp, const Tensor &attn_norm_stats,          \
      const Tensor &norm_stats
#define KEPT_PASSED                                                                 \
  output, inp_norm, qkv, attn_stats, attn_out, add_res, ff1_inp, gelu_inp, ff2_inp, \
      attn_norm_stats, norm_stats

TransformerForward forward_cpu(GIVEN, bool keep) {
  const TransformerArguments g{PASSED};
  check_transformer(g);
  check_transformer_on_host(g);
  return transformer_forward(g, keep);
}

TransformerForward forward_meta(GIVEN, bool keep) {
  const TransformerArguments g{PASSED};
  check_transformer(g);
  const auto batch = input.sym_size(0), length = input.sym_size(1), hidden = input.sym_size(2),
             inter = inter_w.sym_size(0);
  const auto rows = batch * length;
  const auto real =
      input.options().dtype(input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const auto when = [&](bool there, const c10::SymInt& columns) {
    return there ? at::empty_symint({rows, columns}, input.options())
                 : at::empty({0}, input.options());
  };
  const auto stats = [&] {
    return keep ? at::empty_symint({rows, 2}, real) : at::empty({0}, real);
  };
  const bool sums = keep && !normalize_invertible;
  return {at::empty_symint({batch, length, hidden}, input.options()),
          when(pre_layer_norm ? keep : sums, hidden),
          when(keep, 3 * hidden),
          keep ? at::empty_symint({batch, heads, length, 2}, real) : at::empty({0}, real),
          when(keep, hidden),
          when(sums, hidden),
          when(keep, hidden),
          when(keep, inter),
          when(keep && !gelu_checkpoint, inter),
          stats(),
          stats()};
}

TransformerBackward backward_cpu(const Tensor& grad_out, GIVEN, KEPT) {
  const TransformerArguments g{PASSED};
  check_transformer(g);
  check_transformer_on_host(g);
  check_transformer_kept(g, grad_out, output,
                         {inp_norm, qkv, attn_stats, attn_out, add_res, ff1_inp, gelu_inp, ff2_inp,
                          attn_norm_stats, norm_stats});
  return transformer_backward(g, grad_out, output,
                              {inp_norm, qkv, attn_stats, attn_out, add_res, ff1_inp, gelu_inp,
                               ff2_inp, attn_norm_stats, norm_stats});
}

TransformerBackward backward_meta(const Tensor& /*grad_out*/, GIVEN, const Tensor&, const Tensor&,
                                  const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                  const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                  const Tensor&) {
  check_transformer({PASSED});
  const auto like = [](const Tensor& tensor) {
    return at::empty_like(tensor, tensor.options(), at::MemoryFormat::Contiguous);
  };
  return {like(input),    like(attn_qkvw), like(attn_qkvb), like(attn_ow), like(attn_ob),
          like(attn_nw),  like(attn_nb),   like(inter_w),   like(inter_b), like(output_w),
          like(output_b), like(norm_w),    like(norm_b)};
}

using ForwardOp = TransformerForward(GIVEN, bool);
using BackwardOp = TransformerBackward(const Tensor&, GIVEN, KEPT);

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

Tensor layer(GIVEN) {
  static const auto op = find<ForwardOp>("anyaccel::_" ANYACCEL_TRANSFORMER_NAME "_forward");
  return std::get<0>(op.call(PASSED, false));
}

class LayerFunction : public torch::autograd::Function<LayerFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, GIVEN) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = find<ForwardOp>("anyaccel::_" ANYACCEL_TRANSFORMER_NAME "_forward");
    auto [output, inp_norm, qkv, attn_stats, attn_out, add_res, ff1_inp, gelu_inp, ff2_inp,
          attn_norm_stats, norm_stats] = op.call(PASSED, true);
    // With invertible norms, do not keep alive tensors that can be recomputed.
    const bool invertible = normalize_invertible;
    context->save_for_backward(
        {pre_layer_norm && invertible ? inp_norm.view_symint(input.sym_sizes()) : input,
         attention_mask && attention_mask->defined() ? *attention_mask : Tensor(),
         attn_qkvw,
         attn_qkvb,
         attn_ow,
         attn_ob,
         attn_nw,
         attn_nb,
         inter_w,
         inter_b,
         output_w,
         output_b,
         norm_w,
         norm_b,
         !pre_layer_norm && invertible ? output : at::empty({0}, output.options()),
         inp_norm,
         qkv,
         attn_stats,
         attn_out,
         add_res,
         ff1_inp,
         gelu_inp,
         ff2_inp,
         attn_norm_stats,
         norm_stats});
    auto& data = context->saved_data;
    data["heads"] = heads;
    data["attn_dropout"] = attn_dropout;
    data["hidden_dropout"] = hidden_dropout;
    data["eps"] = eps;
    data["seed"] = seed;
    data["flags"] = std::vector<bool>{pre_layer_norm, attn_dropout_checkpoint, normalize_invertible,
                                      gelu_checkpoint, stochastic_mode};
    data["gelu_approximate"] = std::string(gelu_approximate);
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto s = context->get_saved_variables();
    const auto& data = context->saved_data;
    const auto flags = data.at("flags").toBoolList();
    const OptionalTensor mask = s[1].defined() ? OptionalTensor(s[1]) : std::nullopt;
    static const auto op = find<BackwardOp>("anyaccel::_" ANYACCEL_TRANSFORMER_NAME "_backward");
    const auto out = op.call(
        grads[0], s[0], mask, s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12],
        s[13], data.at("heads").toInt(), data.at("attn_dropout").toDouble(),
        data.at("hidden_dropout").toDouble(), data.at("eps").toDouble(), data.at("seed").toInt(),
        flags[0], flags[1], flags[2], flags[3], flags[4], data.at("gelu_approximate").toStringRef(),
        s[14], s[15], s[16], s[17], s[18], s[19], s[20], s[21], s[22], s[23], s[24]);
    torch::autograd::variable_list result(25);
    std::apply(
        [&](const Tensor& grad_input, const auto&... parameters) {
          result[0] = grad_input;
          std::size_t i = 2;
          ((result[i++] = parameters), ...);
        },
        out);
    return result;
  }
};

Tensor layer_autograd(GIVEN) {
  const bool enabled = c10::GradMode::is_enabled();
  if (enabled && attention_mask && attention_mask->defined() && attention_mask->requires_grad())
    fail_argument("transformer_layer", "attention_mask requires a gradient",
                  attention_mask->toString(), "a mask without requires_grad");
  bool wanted = false;
  for (const Tensor* tensor :
       {&input, &attn_qkvw, &attn_qkvb, &attn_ow, &attn_ob, &attn_nw, &attn_nb, &inter_w, &inter_b,
        &output_w, &output_b, &norm_w, &norm_b})
    wanted = wanted || tensor->requires_grad();
  if (enabled && wanted) return LayerFunction::apply(PASSED);
  const at::AutoDispatchBelowADInplaceOrView below;
  return layer(PASSED);
}

Tensor dropout_mask(double ratio, std::int64_t seed, std::int64_t which, std::int64_t rows,
                    std::int64_t columns) {
  check_number("transformer_layer_mask", "ratio", ratio, ratio >= 0 && ratio < 1, "0 <= ratio < 1");
  check_number("transformer_layer_mask", "which", static_cast<double>(which),
               which >= 1 && which <= 3, "1, 2 or 3");
  Tensor out = at::empty({rows, columns}, at::TensorOptions(at::kBool));
  const Dropout dropout = dropout_of(ratio, seed, static_cast<std::uint64_t>(which));
  for (std::int64_t row = 0; row < rows; ++row)
    kept(dropout, row, columns, out.mutable_data_ptr<bool>() + row * columns);
  return out;
}

#define PARAMETERS                                                                                \
  "Tensor input, Tensor? attention_mask, Tensor attn_qkvw, Tensor attn_qkvb, Tensor attn_ow, "    \
  "Tensor attn_ob, "                                                                              \
  "Tensor attn_nw, Tensor attn_nb, Tensor inter_w, Tensor inter_b, Tensor output_w, Tensor "      \
  "output_b, Tensor norm_w, "                                                                     \
  "Tensor norm_b, int heads, float attn_dropout=0.0, float hidden_dropout=0.0, float eps=1e-12, " \
  "int seed=0, "                                                                                  \
  "bool pre_layer_norm=False, bool attn_dropout_checkpoint=False, bool "                          \
  "normalize_invertible=False, "                                                                  \
  "bool gelu_checkpoint=False, bool stochastic_mode=False, str gelu_approximate='none'"

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(ANYACCEL_TRANSFORMER_NAME "(" PARAMETERS ") -> Tensor");
  m.def("_" ANYACCEL_TRANSFORMER_NAME "_forward(" PARAMETERS
        ", *, bool keep) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, "
        "Tensor, Tensor, Tensor)");
  m.def("_" ANYACCEL_TRANSFORMER_NAME "_backward(Tensor grad_out, " PARAMETERS
        ", *, Tensor output, Tensor inp_norm, Tensor qkv, Tensor attn_stats, Tensor attn_out, "
        "Tensor add_res, "
        "Tensor ff1_inp, Tensor gelu_inp, Tensor ff2_inp, Tensor attn_norm_stats, Tensor "
        "norm_stats) -> "
        "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, "
        "Tensor, Tensor)");
  m.def("_" ANYACCEL_TRANSFORMER_NAME
        "_mask(float ratio, int seed, int which, int rows, int columns) -> Tensor",
        dropout_mask);
}

// The public op only calls the forward op, so it is the same on every device.
TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl(ANYACCEL_TRANSFORMER_NAME, layer);
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("_" ANYACCEL_TRANSFORMER_NAME "_forward", forward_cpu);
  m.impl("_" ANYACCEL_TRANSFORMER_NAME "_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("_" ANYACCEL_TRANSFORMER_NAME "_forward", forward_meta);
  m.impl("_" ANYACCEL_TRANSFORMER_NAME "_backward", backward_meta);
}

TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl(ANYACCEL_TRANSFORMER_NAME, layer_autograd);
  m.impl("_" ANYACCEL_TRANSFORMER_NAME "_forward",
         torch::autograd::autogradNotImplementedFallback());
  m.impl("_" ANYACCEL_TRANSFORMER_NAME "_backward",
         torch::autograd::autogradNotImplementedFallback());
}

}  // namespace
}  // namespace anyaccel::ops
