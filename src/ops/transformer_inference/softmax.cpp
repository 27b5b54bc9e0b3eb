#include "ops/transformer_inference/softmax.h"

#include <limits>

#include "ATen/ops/_safe_softmax.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/scalar_tensor.h"
#include "ATen/ops/where.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// Returns an attention mask to add to scores: 0 where `seen` is true, and -inf elsewhere.
Tensor hide_others(const Tensor& seen, const at::TensorOptions& real) {
  return at::where(seen, at::scalar_tensor(0, real), at::scalar_tensor(minus_infinity, real));
}

Tensor added_mask(const char* where, const Tensor& mask, at::SymIntArrayRef scores,
                  const at::TensorOptions& real) {
  Tensor added = mask.scalar_type() == at::kBool ? hide_others(mask, real)
                                                 : mask.to(real.dtype().toScalarType());
  if (added.dim() == 2) added = added.unsqueeze(1).unsqueeze(1);
  while (added.dim() < 4) added = added.unsqueeze(1);
  if (added.sym_size(-1) > scores[3]) added = added.slice_symint(-1, 0, scores[3]);
  for (int i = 0; i < 4; ++i)
    if (added.dim() != 4 || (added.sym_size(i) != scores[i] && added.sym_size(i) != 1))
      fail_argument(where, "the mask has the wrong shape", words(mask),
                    c10::str("[batch, keys], or a shape that broadcasts to ", scores));
  return added;
}

}  // namespace

Tensor score_bias(const char* where, const Tensor& like, at::SymIntArrayRef scores,
                  const OptionalTensor& mask, const OptionalTensor& given_alibi,
                  const Hiding& hiding, std::int64_t first_head, std::int64_t ranks) {
  const auto real = at::TensorOptions(like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat)
                        .device(like.device());
  Tensor bias;
  const auto add = [&](const Tensor& more) { bias = bias.defined() ? bias + more : more; };
  if (is_there(given_alibi)) {
    const Tensor& alibi = *given_alibi;
    const auto heads = scores[1] * ranks;
    const bool each = alibi.sym_size(0) == scores[0] * heads;
    if (alibi.dim() != 3 || alibi.sym_size(1) != 1 || alibi.sym_size(2) < scores[3] ||
        (!each && alibi.sym_size(0) != heads))
      fail_argument(where, "alibi has the wrong shape", words(alibi),
                    c10::str("[", scores[0] * heads, ", 1, ", scores[3], "]"));
    const Tensor all = alibi.view_symint({alibi.sym_size(0) / heads, heads, 1, alibi.sym_size(2)})
                           .slice_symint(3, 0, scores[3]);
    add(all.slice_symint(1, first_head, first_head + scores[1]).to(real.dtype().toScalarType()));
  }
  if (is_there(mask)) add(added_mask(where, *mask, scores, real));
  // A single query is the newest token, so it attends to all keys even with `triangular`.
  if ((hiding.triangular && scores[2] != 1) || hiding.local_attention) {
    const auto numbers = at::TensorOptions(at::kLong).device(like.device());
    const auto queries = scores[2].guard_int(__FILE__, __LINE__),
               keys = scores[3].guard_int(__FILE__, __LINE__);
    const Tensor query = at::arange(keys - queries, keys, numbers).unsqueeze(1),
                 key = at::arange(keys, numbers);
    Tensor seen = hiding.triangular ? key.le(query) : key.lt(keys);
    if (hiding.local_attention) seen = seen.logical_and(key.gt(query - hiding.window_size));
    add(hide_others(seen, real));
  }
  return bias;
}

Tensor masked_softmax(const Tensor& scores, const OptionalTensor& mask, const OptionalTensor& alibi,
                      const Hiding& hiding, double scale, std::int64_t first_head,
                      std::int64_t ranks) {
  constexpr const char* where = "softmax";
  if (scores.dim() != 3 && scores.dim() != 4)
    fail_argument(where, "the scores have the wrong shape", words(scores),
                  "[batch, heads, queries, keys] or [batch, queries, keys]");
  Tensor four = scores;
  if (four.dim() == 3) four = four.unsqueeze(1);
  const auto real = scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Tensor scaled = four.to(real) * scale;
  const Tensor bias =
      score_bias(where, scores, four.sym_sizes(), mask, alibi, hiding, first_head, ranks);
  if (bias.defined()) scaled = scaled + bias;
  return at::_safe_softmax(scaled, -1).to(scores.scalar_type()).view_symint(scores.sym_sizes());
}

}  // namespace anyaccel::ops
