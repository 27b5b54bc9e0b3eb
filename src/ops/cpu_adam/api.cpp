#include <atomic>

#include "anyaccel/ops/call.h"
#include "anyaccel/ops/cpu_adam.h"

namespace anyaccel::ops {

std::int64_t next_optimizer_id() noexcept {
  static std::atomic<std::int64_t> last{0};
  return --last;
}

namespace {

using Create = void(std::int64_t, double, double, double, double, double, bool, bool);
using Destroy = void(std::int64_t);
using UpdateList = void(std::int64_t, std::int64_t, double, double, double, double, double, bool,
                        at::TensorList, at::TensorList, at::TensorList, at::TensorList);

template <typename Signature>
c10::TypedOperatorHandle<Signature> adam_op(const char* name) {
  return load_op<Signature>("CPUAdamBuilder", name);
}

}  // namespace

CPUAdam::CPUAdam(const CPUAdamOptions& options) : options_(options), id_(next_optimizer_id()) {
  static const auto op = adam_op<Create>("create_adam");
  calling("CPUAdam", [&] {
    op.call(id_, options.lr, options.beta1, options.beta2, options.eps, options.weight_decay,
            options.adamw_mode, false);
  });
}

CPUAdam::~CPUAdam() {
  static const auto op = adam_op<Destroy>("destroy_adam");
  op.call(id_);
}

void CPUAdam::step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                   at::TensorList exp_avg_sq) {
  static const auto op = adam_op<UpdateList>("adam_update_list");
  const CPUAdamOptions& o = options_;
  calling("CPUAdam::step", [&] {
    op.call(id_, steps_ + 1, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.bias_correction,
            params, grads, exp_avg, exp_avg_sq);
  });
  ++steps_;
}

void CPUAdam::rollback(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                       at::TensorList exp_avg_sq) {
  static const auto op = adam_op<UpdateList>("adam_rollback_list");
  constexpr const char* where = "CPUAdam::rollback";
  if (steps_ < 1) throw Error(ErrorCode::invalid_state, where, {.what = "no step to undo"});
  const CPUAdamOptions& o = options_;
  calling(where, [&] {
    op.call(id_, steps_, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.bias_correction, params,
            grads, exp_avg, exp_avg_sq);
  });
  --steps_;
}

}  // namespace anyaccel::ops
