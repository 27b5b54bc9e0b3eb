#include "anyaccel/ops/cpu_lion.h"

#include "anyaccel/ops/call.h"

namespace anyaccel::ops {

namespace {

using Create = void(std::int64_t, double, double, double, double, bool);
using Destroy = void(std::int64_t);
using UpdateList = void(std::int64_t, std::int64_t, double, double, double, double, at::TensorList,
                        at::TensorList, at::TensorList);

constexpr const char* builder = "CPULionBuilder";

}  // namespace

CPULion::CPULion(const CPULionOptions& options) : options_(options), id_(next_optimizer_id()) {
  static const auto op = load_op<Create>(builder, "create_lion");
  calling("CPULion", [&] {
    op.call(id_, options.lr, options.beta1, options.beta2, options.weight_decay, false);
  });
}

CPULion::~CPULion() {
  static const auto op = load_op<Destroy>(builder, "destroy_lion");
  op.call(id_);
}

void CPULion::step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg) {
  static const auto op = load_op<UpdateList>(builder, "lion_update_list");
  calling("CPULion::step", [&] {
    op.call(id_, steps_ + 1, options_.lr, options_.beta1, options_.beta2, options_.weight_decay,
            params, grads, exp_avg);
  });
  ++steps_;
}

}  // namespace anyaccel::ops
