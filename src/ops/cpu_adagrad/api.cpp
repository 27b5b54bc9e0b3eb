#include "anyaccel/ops/cpu_adagrad.h"

#include "anyaccel/ops/call.h"

namespace anyaccel::ops {

namespace {

using Create = void(std::int64_t, double, double, double, bool);
using Destroy = void(std::int64_t);
using UpdateList = void(std::int64_t, std::int64_t, double, double, double, at::TensorList,
                        at::TensorList, at::TensorList);

constexpr const char* builder = "CPUAdagradBuilder";

}  // namespace

CPUAdagrad::CPUAdagrad(const CPUAdagradOptions& options)
    : options_(options), id_(next_optimizer_id()) {
  static const auto op = load_op<Create>(builder, "create_adagrad");
  calling("CPUAdagrad",
          [&] { op.call(id_, options.lr, options.eps, options.weight_decay, false); });
}

CPUAdagrad::~CPUAdagrad() {
  static const auto op = load_op<Destroy>(builder, "destroy_adagrad");
  op.call(id_);
}

void CPUAdagrad::step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg_sq) {
  static const auto op = load_op<UpdateList>(builder, "adagrad_update_list");
  calling("CPUAdagrad::step", [&] {
    op.call(id_, steps_ + 1, options_.lr, options_.eps, options_.weight_decay, params, grads,
            exp_avg_sq);
  });
  ++steps_;
}

}  // namespace anyaccel::ops
