#include <atomic>

#include "anyaccel/ops/cpu_adam.h"
#include "ops/support/op_call.h"

namespace anyaccel {

namespace {

using namespace ops;

using Create = void(std::int64_t, double, double, double, double, double, bool, bool);
using Destroy = void(std::int64_t);
using Update = void(std::int64_t, std::int64_t, double, double, double, double, double, bool, const at::Tensor&,
                    const at::Tensor&, const at::Tensor&, const at::Tensor&);
using UpdateList = void(std::int64_t, std::int64_t, double, double, double, double, double, bool, at::TensorList,
                        at::TensorList, at::TensorList, at::TensorList);

template <typename Signature>
c10::TypedOperatorHandle<Signature> adam_op(const char* name) {
  return load_op<Signature>("CPUAdamBuilder", name);
}

// Python counts from 0 upwards.
std::int64_t next_id() {
  static std::atomic<std::int64_t> last{0};
  return --last;
}

}  // namespace

CPUAdam::CPUAdam(const CPUAdamOptions& options) : options_(options), id_(next_id()) {
  static const auto op = adam_op<Create>("create_adam");
  calling("CPUAdam", [&] {
    op.call(id_, options.lr, options.beta1, options.beta2, options.eps, options.weight_decay, options.adamw_mode,
            false);
  });
}

CPUAdam::~CPUAdam() {
  static const auto op = adam_op<Destroy>("destroy_adam");
  op.call(id_);
}

void CPUAdam::step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg, at::TensorList exp_avg_sq) {
  static const auto op = adam_op<UpdateList>("adam_update_list");
  const CPUAdamOptions& o = options_;
  calling("CPUAdam::step", [&] {
    op.call(id_, steps_ + 1, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.bias_correction, params, grads, exp_avg,
            exp_avg_sq);
  });
  ++steps_;
}

void CPUAdam::rollback(at::TensorList params, at::TensorList grads, at::TensorList exp_avg, at::TensorList exp_avg_sq) {
  static const auto op = adam_op<Update>("adam_rollback");
  constexpr const char* where = "CPUAdam::rollback";
  if (steps_ < 1) throw Error(ErrorCode::invalid_state, where, {.what = "there is no step to undo"});
  if (grads.size() != params.size() || exp_avg.size() != params.size() || exp_avg_sq.size() != params.size())
    throw Error(ErrorCode::invalid_argument, where, {.what = "the lists differ in length"});
  const CPUAdamOptions& o = options_;
  calling(where, [&] {
    for (std::size_t i = 0; i < params.size(); ++i)
      op.call(id_, steps_, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.bias_correction, params[i], grads[i],
              exp_avg[i], exp_avg_sq[i]);
  });
  --steps_;
}

}  // namespace anyaccel
