// Registers torch.ops.anyaccel.{create_lion, lion_update, ...}: argument checks, threading and the
// optimizers that Python identifies by number.
#include <cstdio>

#include "ops/shared/lion_step.h"
#include "ops/shared/optimizer_ids.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

OptimizerIds<KeepsNothing>& optimizers() {
  static auto* instance = new OptimizerIds<KeepsNothing>;
  return *instance;
}

template <bool on_host>
void lion_update_list_op(std::int64_t id, std::int64_t step, double lr, double beta1, double beta2,
                         double weight_decay, at::TensorList params, at::TensorList grads,
                         at::TensorList exp_avg) {
  constexpr const char* where = "lion_update_list";
  static_cast<void>(optimizers().get(where, id));
  check_lion_numbers(where, step, lr, beta1, beta2, weight_decay);
  lion_step_lists(where, lion_constants(lr, beta1, beta2, weight_decay), params, grads, exp_avg,
                  on_host);
}

template <bool on_host>
void lion_update_op(std::int64_t id, std::int64_t step, double lr, double beta1, double beta2,
                    double weight_decay, const at::Tensor& params, const at::Tensor& grads,
                    const at::Tensor& exp_avg) {
  constexpr const char* where = "lion_update";
  static_cast<void>(optimizers().get(where, id));
  check_lion_numbers(where, step, lr, beta1, beta2, weight_decay);
  lion_step_lists(where, lion_constants(lr, beta1, beta2, weight_decay), params, grads, exp_avg,
                  on_host);
}

void create_lion(std::int64_t id, double lr, double beta1, double beta2, double weight_decay,
                 bool should_log) {
  check_lion_numbers("create_lion", 1, lr, beta1, beta2, weight_decay);
  optimizers().put(id, {});
  if (should_log)
    std::printf("anyaccel: Lion %lld: %s, lr %g, betas %g %g, weight decay %g\n",
                static_cast<long long>(id), to_string(best_isa()), lr, beta1, beta2, weight_decay);
}

void destroy_lion(std::int64_t id) { optimizers().remove(id); }

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "create_lion(int optimizer_id, float lr=0.001, float beta1=0.9, float beta2=0.999, float "
      "weight_decay=0.0, bool "
      "should_log=False) -> ()",
      create_lion);
  m.def("destroy_lion(int optimizer_id) -> ()", destroy_lion);
  m.def(
      "lion_update(int optimizer_id, int step, float lr, float beta1, float beta2, float "
      "weight_decay, Tensor(a!) "
      "params, Tensor grads, Tensor(b!) exp_avg) -> ()");
  m.def(
      "lion_update_list(int optimizer_id, int step, float lr, float beta1, float beta2, float "
      "weight_decay, "
      "Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avg) -> ()");
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("lion_update", lion_update_op<true>);
  m.impl("lion_update_list", lion_update_list_op<true>);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("lion_update", lion_update_op<false>);
  m.impl("lion_update_list", lion_update_list_op<false>);
}

// An optimizer step is not differentiable. Without this fallthrough, torch's fallback would box the
// arguments only to report this.
TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("lion_update", torch::CppFunction::makeFallthrough());
  m.impl("lion_update_list", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace anyaccel::ops
