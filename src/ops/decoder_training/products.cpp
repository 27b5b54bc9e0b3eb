// Matrix products in float32 for 16-bit tensors, and cross-entropy in chunks of rows.
#include <algorithm>
#include <vector>

#include "ATen/ops/addmm.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/scalar_tensor.h"
#include "ATen/ops/zeros.h"
#include "c10/core/impl/LocalDispatchKeySet.h"
#include "kernels/training/cross_entropy.h"
#include "ops/decoder_training/passes.h"
#include "ops/shared/empty.h"
#include "ops/shared/row_tasks.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace anyaccel::ops {

bool multiplies_fast(at::ScalarType type) {
  if (type == at::kFloat || type == at::kDouble) return true;
  if (type != at::kBFloat16) return false;
#if defined(__x86_64__)
  // CPUs with AMX have this feature too. Without it, oneDNN emulates bfloat16 with AVX-512, and
  // multiplies element by element with AVX2.
  return __builtin_cpu_supports("avx512bf16") != 0;
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long hwcap2_bf16 = 1UL << 14;  // HWCAP2_BF16 in the Linux headers
  return (::getauxval(AT_HWCAP2) & hwcap2_bf16) != 0;
#else
  return false;
#endif
}

namespace {

constexpr const char* linear_name = "training_linear";
constexpr const char* loss_name = "training_linear_cross_entropy";

/// Number of logits per chunk. Chunks must be so large that accumulating the weight gradient of a
/// large vocabulary takes little time compared to the product.
constexpr std::int64_t chunk_logits = std::int64_t{1} << 24;
constexpr std::int64_t least_rows = 128;

Tensor as_rows(const Tensor& x, at::ScalarType type) {
  return x.reshape({-1, x.size(-1)}).to(type).contiguous();
}

void check_product(const char* where, const Tensor& x, const Tensor& weight) {
  check_on_host(where, "the input", x);
  check_like(where, "weight", weight, x);
  if (x.dim() == 0 || weight.dim() != 2 || x.size(-1) != weight.size(1) || weight.size(1) == 0)
    fail_argument(where, "the shape of weight does not match the input",
                  words(weight) + " for " + words(x), "[outputs, inputs] for [..., inputs]");
}

/// The rows of hidden states whose labels are not ignored.
struct Counted {
  Tensor index;  ///< undefined if all rows are included
  std::vector<std::int64_t> labels;
};

Counted counted(const Tensor& labels_in, std::int64_t ignore_index, std::int64_t vocab) {
  const Tensor labels = labels_in.contiguous();
  const auto* at = labels.const_data_ptr<std::int64_t>();
  Counted out;
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    if (at[i] == ignore_index) continue;
    if (at[i] < 0 || at[i] >= vocab)
      fail_argument(loss_name, "a label is outside the vocabulary", std::to_string(at[i]),
                    "0 to " + std::to_string(vocab - 1) + ", or " + std::to_string(ignore_index) +
                        " for excluded rows");
    out.labels.push_back(at[i]);
    rows.push_back(i);
  }
  if (static_cast<std::int64_t>(rows.size()) == labels.numel()) return out;
  out.index = empty({static_cast<std::int64_t>(rows.size())}, labels.options());
  std::copy(rows.begin(), rows.end(), out.index.mutable_data_ptr<std::int64_t>());
  return out;
}

/// Computes losses and replaces logits by gradients for one chunk.
template <typename S>
double losses_of(const Tensor& logits, const std::int64_t* labels, double softcap, double factor,
                 bool gradient, std::vector<double>& losses) {
  using Real = typename RealOf<S>::type;
  const std::int64_t rows = logits.size(0), vocab = logits.size(1);
  const CrossEntropy<S> pass{
      vocab,    write<S>(logits), labels, static_cast<Real>(softcap), static_cast<Real>(factor),
      gradient, losses.data()};
  const Isa isa = best_isa();
  parallel_tasks(rows, task_threads(), [&](std::int64_t row, std::int64_t) {
    cross_entropy_rows(isa, pass, row, row + 1);
  });
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) sum += losses[static_cast<std::size_t>(i)];
  return sum;
}

}  // namespace

Tensor wide_linear_forward(const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
  check_product(linear_name, x, weight);
  const c10::impl::ExcludeDispatchKeyGuard wide_products(c10::autocast_dispatch_keyset);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  const Tensor rows = as_rows(x, at::kFloat), wide = weight.to(at::kFloat);
  Tensor out;
  if (is_given(bias)) {
    check_like(linear_name, "bias", *bias, x);
    if (bias->dim() != 1 || bias->size(0) != weight.size(0))
      fail_argument(linear_name, "the shape of bias does not match weight", words(*bias),
                    words(weight));
    out = at::addmm(bias->to(at::kFloat), rows, wide.t());
  } else {
    out = at::mm(rows, wide.t());
  }
  return out.to(x.scalar_type()).view(sizes);
}

Three wide_linear_backward(const Tensor& grad_out, const Tensor& x, const Tensor& weight,
                           bool x_grad, bool weight_grad, bool bias_grad) {
  check_product(linear_name, x, weight);
  const c10::impl::ExcludeDispatchKeyGuard wide_products(c10::autocast_dispatch_keyset);
  check_like(linear_name, "the gradient", grad_out, x);
  if (grad_out.numel() * x.size(-1) != x.numel() * weight.size(0))
    fail_argument(linear_name, "the shape of the gradient is wrong", words(grad_out),
                  "[..., outputs] for " + words(x) + " and " + words(weight));
  const Tensor grad = as_rows(grad_out, at::kFloat);
  const auto type = x.scalar_type();
  const Tensor none = empty({0}, x.options());
  return {x_grad ? at::mm(grad, weight.to(at::kFloat)).to(type).view(x.sizes()) : none,
          weight_grad ? at::mm(grad.t(), as_rows(x, at::kFloat)).to(type) : none,
          bias_grad ? grad.sum(0).to(type) : none};
}

Three cross_entropy_forward(const Tensor& hidden_in, const Tensor& weight_in,
                            const Tensor& labels_in, std::int64_t ignore_index, double divisor,
                            double softcap, bool hidden_grad, bool weight_grad) {
  check_product(loss_name, hidden_in, weight_in);
  const auto type = hidden_in.scalar_type();
  if (labels_in.scalar_type() != at::kLong || !labels_in.is_cpu() ||
      labels_in.numel() * hidden_in.size(-1) != hidden_in.numel())
    fail_argument(loss_name, "the labels do not match the hidden states",
                  words(labels_in) + " for " + words(hidden_in), "int64 [...] for [..., width]");
  check_not_negative(loss_name, "divisor", divisor);
  check_not_negative(loss_name, "softcap", softcap);
  const std::int64_t width = hidden_in.size(-1), vocab = weight_in.size(0);
  const Counted rows = counted(labels_in, ignore_index, vocab);
  const auto count = static_cast<std::int64_t>(rows.labels.size());
  const double by = divisor > 0 ? divisor : static_cast<double>(count);

  // Products use the tensors' dtype if torch multiplies it fast. Gradients of the weight are always
  // summed in the compute dtype.
  const auto product = multiplies_fast(type) ? type : at::kFloat;
  const auto real = real_type(type);
  Tensor hidden = hidden_in.reshape({-1, width});
  if (rows.index.defined()) hidden = hidden.index_select(0, rows.index);
  hidden = hidden.to(product).contiguous();
  const Tensor weight = weight_in.to(product);
  const std::int64_t chunk =
      std::min(std::max<std::int64_t>(1, count),
               std::max(least_rows, chunk_logits / std::max<std::int64_t>(1, vocab)));
  const auto options = hidden.options();
  const Tensor none = empty({0}, hidden_in.options());
  const Tensor all_logits = empty({chunk, vocab}, options);
  const Tensor to_hidden = hidden_grad ? empty({count, width}, options) : none;
  Tensor to_weight = weight_grad ? count ? empty({vocab, width}, options.dtype(real))
                                         : at::zeros({vocab, width}, options.dtype(real))
                                 : none;
  std::vector<double> losses(static_cast<std::size_t>(chunk));
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t size = std::min(chunk, count - first);
    const Tensor part = hidden.narrow(0, first, size);
    Tensor logits = all_logits.narrow(0, 0, size);
    at::mm_out(logits, part, weight.t());
    sum += for_element(loss_name, logits, [&](auto element) {
      return losses_of<decltype(element)>(logits, rows.labels.data() + first, softcap, 1 / by,
                                          hidden_grad || weight_grad, losses);
    });
    if (hidden_grad) {
      Tensor to = to_hidden.narrow(0, first, size);
      at::mm_out(to, logits, weight);
    }
    if (!weight_grad) continue;
    if (real == product)
      at::addmm_out(to_weight, to_weight, logits.t(), part, first ? 1 : 0);
    else if (first)
      to_weight.add_(at::mm(logits.t(), part));
    else
      to_weight.copy_(at::mm(logits.t(), part));
  }
  Tensor hidden_result = none;
  if (hidden_grad) {
    hidden_result = to_hidden.to(type);
    if (rows.index.defined())
      hidden_result = at::zeros({labels_in.numel(), width}, hidden_in.options())
                          .index_copy_(0, rows.index, hidden_result);
    hidden_result = hidden_result.view(hidden_in.sizes());
  }
  return {at::scalar_tensor(sum / by, hidden_in.options().dtype(real)), hidden_result,
          weight_grad ? to_weight.to(type) : none};
}

}  // namespace anyaccel::ops
