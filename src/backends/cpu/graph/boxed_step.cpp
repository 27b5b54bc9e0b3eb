#include <ATen/ops/copy.h>

#include <utility>

#include "anyaccel/error.h"
#include "backends/cpu/graph/step.h"

namespace anyaccel::backends::cpu {
namespace {

class BoxedStep final : public Step {
 public:
  BoxedStep(const c10::OperatorHandle& op, torch::jit::Stack args, std::vector<at::Tensor> outputs)
      : op_(op), args_(std::move(args)), outputs_(std::move(outputs)) {}

  void run() override {
    stack_ = args_;
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    if (!outputs_.empty()) copy_results();
    stack_.clear();
  }

 private:
  void copy_results() {
    const auto results = tensors_in(stack_);
    if (results.size() != outputs_.size()) throw_changed();
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].sizes() != outputs_[i].sizes()) throw_changed();
      at::_ops::copy_::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), outputs_[i],
                                  results[i], false);
    }
  }

  [[noreturn]] void throw_changed() const {
    throw Error(ErrorCode::unsupported, "replay_graph",
                {.what = "the op " + toString(op_.operator_name()) +
                         " returned results whose shapes differ from the captured shapes",
                 .hint = "do not capture ops whose output shapes depend on tensor values"});
  }

  c10::OperatorHandle op_;
  torch::jit::Stack args_;
  std::vector<at::Tensor> outputs_;
  torch::jit::Stack stack_;  // kept as a member to reuse its capacity
};

void collect(const c10::IValue& value, std::vector<at::Tensor>& found) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) found.push_back(value.toTensor());
  } else if (value.isList()) {
    for (const auto& element : value.toListRef()) collect(element, found);
  }
}

}  // namespace

std::vector<at::Tensor> tensors_in(c10::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> found;
  for (const auto& value : values) collect(value, found);
  return found;
}

std::unique_ptr<Step> make_boxed_step(const c10::OperatorHandle& op, torch::jit::Stack args,
                                      std::vector<at::Tensor> outputs) {
  return std::make_unique<BoxedStep>(op, std::move(args), std::move(outputs));
}

}  // namespace anyaccel::backends::cpu
