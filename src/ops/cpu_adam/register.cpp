// Registers torch.ops.anyaccel.{create_adam, adam_update, ...}: argument checks, threading and the
// optimizers that Python identifies by number.
#include <cstdio>

#include "ops/cpu_adam/zenflow.h"
#include "ops/shared/adam_step.h"
#include "ops/shared/optimizer_ids.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

OptimizerIds<bool>& optimizers() {  // the value is whether weight decay is decoupled
  static auto* instance = new OptimizerIds<bool>;
  return *instance;
}

void one(const char* where, AdamKernel kernel, bool on_host, std::int64_t id,
         const AdamNumbers& arguments, const at::Tensor& params, const at::Tensor& grads,
         const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq) {
  AdamNumbers numbers = arguments;
  numbers.options.decoupled = optimizers().get(where, id);
  check_numbers(where, numbers);
  const AdamArrays arrays = adam_arrays(where, params, grads, exp_avg, exp_avg_sq, on_host);
  if (!on_host) return;
  const std::int64_t size = params.numel();
  adam_run(kernel, numbers, &arrays, &size, 1);
}

template <bool on_host>
void adam_update_op(std::int64_t id, std::int64_t step, double lr, double beta1, double beta2,
                    double eps, double weight_decay, bool bias_correction, const at::Tensor& params,
                    const at::Tensor& grads, const at::Tensor& exp_avg,
                    const at::Tensor& exp_avg_sq) {
  one("adam_update", adam_update, on_host, id,
      {step, {lr, beta1, beta2, eps, weight_decay, bias_correction}}, params, grads, exp_avg,
      exp_avg_sq);
}

void check_invertible(const char* where, double beta1, double beta2) {
  constexpr const char* old_state = "a number above 0, because the rollback divides by it";
  check_number(where, "beta1", beta1, beta1 > 0, old_state);
  check_number(where, "beta2", beta2, beta2 > 0, old_state);
}

template <bool on_host>
void adam_rollback_op(std::int64_t id, std::int64_t step, double lr, double beta1, double beta2,
                      double eps, double weight_decay, bool bias_correction,
                      const at::Tensor& params, const at::Tensor& grads, const at::Tensor& exp_avg,
                      const at::Tensor& exp_avg_sq) {
  check_invertible("adam_rollback", beta1, beta2);
  one("adam_rollback", adam_rollback, on_host, id,
      {step, {lr, beta1, beta2, eps, weight_decay, bias_correction}}, params, grads, exp_avg,
      exp_avg_sq);
}

template <bool on_host>
void adam_update_list_op(std::int64_t id, std::int64_t step, double lr, double beta1, double beta2,
                         double eps, double weight_decay, bool bias_correction,
                         at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                         at::TensorList exp_avg_sq) {
  constexpr const char* where = "adam_update_list";
  adam_step_lists(
      where, adam_update,
      {step, {lr, beta1, beta2, eps, weight_decay, bias_correction, optimizers().get(where, id)}},
      params, grads, exp_avg, exp_avg_sq, on_host);
}

template <bool on_host>
void adam_rollback_list_op(std::int64_t id, std::int64_t step, double lr, double beta1,
                           double beta2, double eps, double weight_decay, bool bias_correction,
                           at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                           at::TensorList exp_avg_sq) {
  constexpr const char* where = "adam_rollback_list";
  check_invertible(where, beta1, beta2);
  adam_step_lists(
      where, adam_rollback,
      {step, {lr, beta1, beta2, eps, weight_decay, bias_correction, optimizers().get(where, id)}},
      params, grads, exp_avg, exp_avg_sq, on_host);
}

void create_adam(std::int64_t id, double lr, double beta1, double beta2, double eps,
                 double weight_decay, bool adamw_mode, bool should_log) {
  check_numbers("create_adam", {1, {lr, beta1, beta2, eps, weight_decay, true, adamw_mode}});
  optimizers().put(id, adamw_mode);
  if (should_log)
    std::printf("anyaccel: Adam %lld: %s, lr %g, betas %g %g, eps %g, weight decay %g %s\n",
                static_cast<long long>(id), to_string(best_isa()), lr, beta1, beta2, eps,
                weight_decay, adamw_mode ? "decoupled" : "as L2");
}

void destroy_adam(std::int64_t id) { optimizers().remove(id); }

// ZenFlow. Each pool keeps alive the tensors that it updates.
std::int64_t zenflow_adam_create(std::int64_t id, at::IntArrayRef affinity) {
  return zenflow_create(optimizers().get("zenflow_adam_create", id), affinity.vec());
}

void zenflow_adam_register_group(std::int64_t handle, const at::Tensor& param,
                                 const at::Tensor& grad0, const at::Tensor& grad1,
                                 const at::Tensor& exp_avg0, const at::Tensor& exp_avg1,
                                 const at::Tensor& exp_avg_sq0, const at::Tensor& exp_avg_sq1,
                                 const std::optional<at::Tensor>& stale) {
  constexpr const char* where = "zenflow_adam_register_group";
  ZenflowGroup group;
  group.arrays[0] = adam_arrays(where, param, grad0, exp_avg0, exp_avg_sq0, true);
  group.arrays[1] = adam_arrays(where, param, grad1, exp_avg1, exp_avg_sq1, true);
  group.size = param.numel();
  if (stale && stale->defined()) {
    check_beside(where, "stale", *stale, param, true);
    if (stale->scalar_type() != param.scalar_type())
      fail_argument(where, "the dtype of stale differs from that of the parameters", words(*stale),
                    words(param));
    group.stale = stale->mutable_data_ptr();
  }
  group.owner = std::make_shared<std::vector<at::Tensor>>(
      std::vector<at::Tensor>{param, grad0, grad1, exp_avg0, exp_avg1, exp_avg_sq0, exp_avg_sq1,
                              stale.value_or(at::Tensor())});
  zenflow_register(handle, std::move(group));
}

void zenflow_adam_submit(std::int64_t control, std::int64_t now_state, std::int64_t step,
                         at::ArrayRef<double> lr, at::ArrayRef<double> beta1,
                         at::ArrayRef<double> beta2, at::ArrayRef<double> eps,
                         at::ArrayRef<double> weight_decay, at::IntArrayRef bias_correction) {
  constexpr const char* where = "zenflow_adam_submit";
  const std::size_t groups = lr.size();
  if (beta1.size() != groups || beta2.size() != groups || eps.size() != groups ||
      weight_decay.size() != groups || bias_correction.size() != groups)
    fail_argument(where, "the lists differ in length",
                  c10::str("lengths ", groups, ", ", beta1.size(), ", ", beta2.size(), ", ",
                           eps.size(), ", ", weight_decay.size(), ", ", bias_correction.size()),
                  "equal lengths");
  std::vector<AdamOptions> options;
  for (std::size_t i = 0; i < groups; ++i) {
    options.push_back(
        {lr[i], beta1[i], beta2[i], eps[i], weight_decay[i], bias_correction[i] != 0});
    check_numbers(where, {step, options.back()});
  }
  zenflow_submit(control, now_state, step, options);
}

#define NUMBERS                                                                        \
  "(int optimizer_id, int step, float lr, float beta1, float beta2, float eps, float " \
  "weight_decay, "                                                                     \
  "bool bias_correction, "
#define LISTS \
  "Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avg, Tensor(c!)[] exp_avg_sq) -> ()"
#define ONE_TENSOR \
  "Tensor(a!) params, Tensor grads, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq) -> ()"

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "create_adam(int optimizer_id, float lr=0.001, float beta1=0.9, float beta2=0.999, float "
      "eps=1e-08, "
      "float weight_decay=0.0, bool adamw_mode=True, bool should_log=False) -> ()",
      create_adam);
  m.def("destroy_adam(int optimizer_id) -> ()", destroy_adam);
  m.def("adam_update" NUMBERS ONE_TENSOR);
  m.def("adam_rollback" NUMBERS ONE_TENSOR);
  m.def("adam_update_list" NUMBERS LISTS);
  m.def("adam_rollback_list" NUMBERS LISTS);
  m.def("zenflow_adam_create(int optimizer_id, int[] affinity) -> int", zenflow_adam_create);
  m.def(
      "zenflow_adam_register_group(int handle, Tensor param, Tensor grad0, Tensor grad1, Tensor "
      "exp_avg0, "
      "Tensor exp_avg1, Tensor exp_avg_sq0, Tensor exp_avg_sq1, Tensor? stale) -> ()",
      zenflow_adam_register_group);
  m.def("zenflow_adam_destroy(int handle) -> ()", zenflow_destroy);
  m.def("zenflow_adam_ctrl_size() -> int", zenflow_control_size);
  m.def("zenflow_adam_ctrl_init(int control, int num_groups) -> ()", zenflow_control_init);
  m.def("zenflow_adam_run_worker(int handle, int control) -> ()", zenflow_run_worker);
  m.def(
      "zenflow_adam_submit(int control, int now_state, int step, float[] lr, float[] beta1, "
      "float[] beta2, "
      "float[] eps, float[] weight_decay, int[] bias_correction) -> ()",
      zenflow_adam_submit);
  m.def("zenflow_adam_wait(int control, float timeout_s) -> bool", zenflow_wait);
  m.def("zenflow_adam_ctrl_exit(int control) -> ()", zenflow_control_exit);
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("adam_update", adam_update_op<true>);
  m.impl("adam_rollback", adam_rollback_op<true>);
  m.impl("adam_update_list", adam_update_list_op<true>);
  m.impl("adam_rollback_list", adam_rollback_list_op<true>);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("adam_update", adam_update_op<false>);
  m.impl("adam_rollback", adam_rollback_op<false>);
  m.impl("adam_update_list", adam_update_list_op<false>);
  m.impl("adam_rollback_list", adam_rollback_list_op<false>);
}

// An optimizer step is not differentiable. Without this fallthrough, torch's fallback would box the
// arguments only to report this.
TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("adam_update", torch::CppFunction::makeFallthrough());
  m.impl("adam_rollback", torch::CppFunction::makeFallthrough());
  m.impl("adam_update_list", torch::CppFunction::makeFallthrough());
  m.impl("adam_rollback_list", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace anyaccel::ops
