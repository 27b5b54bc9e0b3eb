#include "ops/transformer/arguments.h"

#include <array>
#include <utility>

namespace anyaccel::ops {
namespace {

constexpr const char* where = "transformer_layer";

void check_parameter(const TransformerArguments& g, const char* name, const Tensor& tensor,
                     std::int64_t dim) {
  if (tensor.scalar_type() != g.input.scalar_type() || tensor.dim() != dim)
    fail_argument(where, std::string(name) + " has the wrong dtype or number of dimensions",
                  words(tensor), c10::str(g.input.scalar_type(), " with ", dim, " dimensions"));
}

void check_size(const char* name, const Tensor& tensor, at::IntArrayRef sizes) {
  if (tensor.sizes() != sizes)
    fail_argument(where, std::string(name) + " has the wrong shape", words(tensor),
                  c10::str(sizes));
}

std::array<const Tensor*, 13> tensors_of(const TransformerArguments& g) {
  return {&g.input,   &g.attn_qkvw, &g.attn_qkvb, &g.attn_ow,  &g.attn_ob, &g.attn_nw, &g.attn_nb,
          &g.inter_w, &g.inter_b,   &g.output_w,  &g.output_b, &g.norm_w,  &g.norm_b};
}

}  // namespace

void check_transformer(const TransformerArguments& g) {
  if (g.input.dim() != 3)
    fail_argument(where, "the input is not 3-dimensional", words(g.input),
                  "[batch, length, hidden]");
  if (g.input.scalar_type() != at::kDouble) element_of(where, "the input", g.input);
  check_parameter(g, "attn_qkvw", g.attn_qkvw, 2);
  check_parameter(g, "attn_qkvb", g.attn_qkvb, 1);
  check_parameter(g, "attn_ow", g.attn_ow, 2);
  check_parameter(g, "attn_ob", g.attn_ob, 1);
  check_parameter(g, "attn_nw", g.attn_nw, 1);
  check_parameter(g, "attn_nb", g.attn_nb, 1);
  check_parameter(g, "inter_w", g.inter_w, 2);
  check_parameter(g, "inter_b", g.inter_b, 1);
  check_parameter(g, "output_w", g.output_w, 2);
  check_parameter(g, "output_b", g.output_b, 1);
  check_parameter(g, "norm_w", g.norm_w, 1);
  check_parameter(g, "norm_b", g.norm_b, 1);
  if (g.heads < 1)
    fail_argument(where, "the number of heads is out of range", std::to_string(g.heads),
                  "1 or more");
  for (const auto& [name, ratio] :
       {std::pair{"attn_dropout", g.attn_dropout}, {"hidden_dropout", g.hidden_dropout}})
    check_number(where, name, ratio, ratio >= 0 && ratio < 1, "0 <= ratio < 1");
  check_not_negative(where, "eps", g.eps);
  if (g.gelu_approximate != "none" && g.gelu_approximate != "tanh")
    fail_argument(where, "unknown gelu_approximate", std::string(g.gelu_approximate),
                  "none or tanh");
}

void check_transformer_on_host(const TransformerArguments& g) {
  for (const Tensor* tensor : tensors_of(g)) check_on_host(where, "an argument", *tensor);
  if (g.has_mask()) check_on_host(where, "attention_mask", *g.attention_mask);
  check_transformer_sizes(g);
}

void check_transformer_sizes(const TransformerArguments& g) {
  const std::int64_t hidden = g.input.size(2), inter = g.inter_w.size(0);
  if (hidden % g.heads)
    fail_argument(where, "the hidden size is not a multiple of the number of heads",
                  std::to_string(hidden), "a multiple of " + std::to_string(g.heads));
  check_size("attn_qkvw", g.attn_qkvw, {3 * hidden, hidden});
  check_size("attn_qkvb", g.attn_qkvb, {3 * hidden});
  check_size("attn_ow", g.attn_ow, {hidden, hidden});
  check_size("inter_w", g.inter_w, {inter, hidden});
  check_size("inter_b", g.inter_b, {inter});
  check_size("output_w", g.output_w, {hidden, inter});
  for (const auto& [name, tensor] : {std::pair<const char*, const Tensor*>{"attn_ob", &g.attn_ob},
                                     {"attn_nw", &g.attn_nw},
                                     {"attn_nb", &g.attn_nb},
                                     {"output_b", &g.output_b},
                                     {"norm_w", &g.norm_w},
                                     {"norm_b", &g.norm_b}})
    check_size(name, *tensor, {hidden});
  for (const Tensor* tensor : tensors_of(g)) check_dense_on(where, "an argument", *tensor, g.input);
  if (!g.has_mask()) return;
  const Tensor& mask = *g.attention_mask;
  check_dense_on(where, "attention_mask", mask, g.input);
  const std::int64_t full[] = {g.input.size(0), g.heads, g.input.size(1), g.input.size(1)};
  bool fits = mask.dim() <= 4 &&
              (at::isFloatingType(mask.scalar_type()) || mask.scalar_type() == at::kBool);
  for (std::int64_t i = 1; fits && i <= mask.dim(); ++i)
    fits = mask.size(-i) == 1 || mask.size(-i) == full[4 - i];
  if (!fits)
    fail_argument(where, "attention_mask has the wrong shape or dtype", words(mask),
                  c10::str("floating-point or bool, expandable to [", full[0], ", ", full[1], ", ",
                           full[2], ", ", full[3], "]"));
}

void check_transformer_kept(const TransformerArguments& g, const Tensor& grad_out,
                            const Tensor& output, const TransformerKept& kept) {
  const std::int64_t batch = g.input.size(0), length = g.input.size(1), hidden = g.input.size(2),
                     rows = batch * length;
  const std::int64_t inter = g.inter_w.size(0);
  const bool pre = g.pre_layer_norm, sums = !g.normalize_invertible;
  const auto check = [&](const char* name, const Tensor& tensor, at::IntArrayRef sizes, bool wanted,
                         bool stats) {
    if (!wanted) return;
    const auto type =
        !stats || g.input.scalar_type() == at::kDouble ? g.input.scalar_type() : at::kFloat;
    check_dense_on(where, name, tensor, g.input);
    if (tensor.sizes() != sizes || tensor.scalar_type() != type ||
        (name != std::string_view("grad_out") && !tensor.is_contiguous()))
      fail_argument(where, std::string(name) + " does not match the forward pass", words(tensor),
                    c10::str(type, " ", sizes));
  };
  check("grad_out", grad_out, {batch, length, hidden}, true, false);
  check("output", output, {batch, length, hidden}, !pre && !sums, false);
  check("inp_norm", kept.inp_norm, {rows, hidden}, pre || sums, false);
  check("qkv", kept.qkv, {rows, 3 * hidden}, true, false);
  check("attn_stats", kept.attn_stats, {batch, g.heads, length, 2}, true, true);
  check("attn_out", kept.attn_out, {rows, hidden}, true, false);
  check("add_res", kept.add_res, {rows, hidden}, sums, false);
  check("ff1_inp", kept.ff1_inp, {rows, hidden}, true, false);
  check("gelu_inp", kept.gelu_inp, {rows, inter}, true, false);
  check("ff2_inp", kept.ff2_inp, {rows, inter}, !g.gelu_checkpoint, false);
  check("attn_norm_stats", kept.attn_norm_stats, {rows, 2}, true, true);
  check("norm_stats", kept.norm_stats, {rows, 2}, true, true);
}

}  // namespace anyaccel::ops
