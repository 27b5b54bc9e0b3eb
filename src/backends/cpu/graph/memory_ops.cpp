#include <ATen/core/Tensor.h>
#include <ATen/ops/cat_cpu_dispatch.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/fill_native.h>
#include <ATen/ops/index_select_cpu_dispatch.h>
#include <ATen/ops/masked_fill_cpu_dispatch.h>
#include <ATen/ops/where_cpu_dispatch.h>

#include <cstring>
#include <utility>

#include "backends/cpu/graph/fast_step.h"

namespace anyaccel::backends::cpu {
namespace {

using Values = c10::ArrayRef<c10::IValue>;
using Tensors = c10::ArrayRef<at::Tensor>;

// Up to this many bytes, memcpy or memset on one thread is faster than torch's loop. For larger
// sizes, torch uses several threads.
constexpr std::size_t kSmall = 1U << 17U;

template <class Work>
class Call final : public Step {
 public:
  explicit Call(Work work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  Work work_;
};

template <class Work>
std::unique_ptr<Step> call(Work work) {
  return std::make_unique<Call<Work>>(std::move(work));
}

bool dense(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj();
}

std::unique_ptr<Step> make_copy(Values args, Tensors outputs) {
  auto to = outputs[0];
  const auto from = args[1].toTensor();
  if (dense(to) && dense(from) && to.sizes() == from.sizes() && to.dtype() == from.dtype() &&
      to.nbytes() <= kSmall && !to.is_alias_of(from)) {
    return call([to, from] { std::memcpy(to.data_ptr(), from.const_data_ptr(), to.nbytes()); });
  }
  return call([to, from]() mutable { at::native::copy_(to, from, false); });
}

std::unique_ptr<Step> make_zero(Values /*args*/, Tensors outputs) {
  auto to = outputs[0];
  if (!dense(to) || to.nbytes() > kSmall) return call([to]() mutable { at::native::fill_(to, 0); });
  return call([to] { std::memset(to.data_ptr(), 0, to.nbytes()); });
}

std::unique_ptr<Step> make_fill(Values args, Tensors outputs) {
  return call(
      [to = outputs[0], value = args[1].toScalar()]() mutable { at::native::fill_(to, value); });
}

std::unique_ptr<Step> make_index_select(Values args, Tensors outputs) {
  return call([from = args[0].toTensor(), dim = args[1].toInt(), index = args[2].toTensor(),
               to = outputs[0]]() mutable { at::cpu::index_select_outf(from, dim, index, to); });
}

std::unique_ptr<Step> make_where(Values args, Tensors outputs) {
  return call([condition = args[0].toTensor(), a = args[1].toTensor(), b = args[2].toTensor(),
               to = outputs[0]]() mutable { at::cpu::where_outf(condition, a, b, to); });
}

std::unique_ptr<Step> make_masked_fill(Values args, Tensors outputs) {
  return call([to = outputs[0], mask = args[1].toTensor(), value = args[2].toScalar()]() mutable {
    at::cpu::masked_fill_(to, mask, value);
  });
}

std::unique_ptr<Step> make_cat(Values args, Tensors outputs) {
  return call([from = args[0].toTensorVector(), dim = args[1].toInt(), to = outputs[0]]() mutable {
    at::cpu::cat_outf(at::ITensorListRef(from), dim, to);
  });
}

}  // namespace

c10::ArrayRef<FastOp> memory_ops() {
  static constexpr FastOp table[] = {
      {"copy_", &make_copy},        {"zero_", &make_zero},
      {"fill_.Scalar", &make_fill}, {"index_select", &make_index_select},
      {"where.self", &make_where},  {"masked_fill_.Scalar", &make_masked_fill},
      {"cat", &make_cat},
  };
  return table;
}

}  // namespace anyaccel::backends::cpu
