// Registers torch.ops.anyaccel.{create_adagrad, adagrad_update, ...}: argument checks, threading
// and the optimizers that Python identifies by number.
#include <cstdio>

#include "ops/cpu_adagrad/step.h"
#include "ops/shared/optimizer_ids.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

OptimizerIds<KeepsNothing>& optimizers() {
  static auto* instance = new OptimizerIds<KeepsNothing>;
  return *instance;
}

template <bool on_host>
void adagrad_update_list_op(std::int64_t id, std::int64_t step, double lr, double eps,
                            double weight_decay, at::TensorList params, at::TensorList grads,
                            at::TensorList exp_avg_sq) {
  constexpr const char* where = "adagrad_update_list";
  static_cast<void>(optimizers().get(where, id));
  check_adagrad_numbers(where, step, lr, eps, weight_decay);
  adagrad_step_lists(
      where, {static_cast<float>(-lr), static_cast<float>(eps), static_cast<float>(weight_decay)},
      params, grads, exp_avg_sq, on_host);
}

template <bool on_host>
void adagrad_update_op(std::int64_t id, std::int64_t step, double lr, double eps,
                       double weight_decay, const at::Tensor& params, const at::Tensor& grads,
                       const at::Tensor& exp_avg_sq) {
  constexpr const char* where = "adagrad_update";
  static_cast<void>(optimizers().get(where, id));
  check_adagrad_numbers(where, step, lr, eps, weight_decay);
  adagrad_step_lists(
      where, {static_cast<float>(-lr), static_cast<float>(eps), static_cast<float>(weight_decay)},
      params, grads, exp_avg_sq, on_host);
}

void create_adagrad(std::int64_t id, double lr, double eps, double weight_decay, bool should_log) {
  check_adagrad_numbers("create_adagrad", 1, lr, eps, weight_decay);
  optimizers().put(id, {});
  if (should_log)
    std::printf("anyaccel: Adagrad %lld: %s, lr %g, eps %g, weight decay %g\n",
                static_cast<long long>(id), to_string(best_isa()), lr, eps, weight_decay);
}

void destroy_adagrad(std::int64_t id) { optimizers().remove(id); }

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "create_adagrad(int optimizer_id, float lr=0.01, float eps=1e-08, float weight_decay=0.0, "
      "bool should_log=False) "
      "-> ()",
      create_adagrad);
  m.def("destroy_adagrad(int optimizer_id) -> ()", destroy_adagrad);
  m.def(
      "adagrad_update(int optimizer_id, int step, float lr, float eps, float weight_decay, "
      "Tensor(a!) params, Tensor "
      "grads, Tensor(b!) exp_avg_sq) -> ()");
  m.def(
      "adagrad_update_list(int optimizer_id, int step, float lr, float eps, float weight_decay, "
      "Tensor(a!)[] params, "
      "Tensor[] grads, Tensor(b!)[] exp_avg_sq) -> ()");
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("adagrad_update", adagrad_update_op<true>);
  m.impl("adagrad_update_list", adagrad_update_list_op<true>);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("adagrad_update", adagrad_update_op<false>);
  m.impl("adagrad_update_list", adagrad_update_list_op<false>);
}

// An optimizer step is not differentiable. Without this fallthrough, torch's fallback would box the
// arguments only to report this.
TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("adagrad_update", torch::CppFunction::makeFallthrough());
  m.impl("adagrad_update_list", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace anyaccel::ops
