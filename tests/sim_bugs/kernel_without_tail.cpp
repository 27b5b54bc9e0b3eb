// A custom op's kernel processes blocks of 8 elements and does not handle the last, incomplete
// block separately. It writes past the end of tensors whose size is not a multiple of 8.
#include <torch/library.h>

#include <algorithm>

#include "bug.h"

namespace anyaccel::sim_bugs {

namespace {

constexpr std::int64_t kBlock = 8;

void halve(const at::Tensor& values, bool handles_tail) {
  auto* data = values.mutable_data_ptr<float>();
  const auto size = values.numel();
  for (std::int64_t begin = 0; begin < size; begin += kBlock) {
    const auto count = handles_tail ? std::min(kBlock, size - begin) : kBlock;
    for (std::int64_t i = begin; i < begin + count; ++i) data[i] *= 0.5F;
  }
}

}  // namespace

TORCH_LIBRARY(sim_bugs, library) {
  library.def("halve(Tensor(a!) values, bool handles_tail) -> ()");
  library.impl("halve", c10::DispatchKey::CPU, &halve);
}

SIM_BUG(kernel_without_tail, "out_of_bounds", "sim_bugs::halve", "float32 [100]") {
  const auto values = at::ones({100}, on());
  c10::Dispatcher::singleton()
      .findSchemaOrThrow("sim_bugs::halve", "")
      .typed<void(const at::Tensor&, bool)>()
      .call(values, fixed);
  get_accelerator().synchronize();
}

}  // namespace anyaccel::sim_bugs
