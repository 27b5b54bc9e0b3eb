#include "llm/support/compute_device.h"

#include "anyaccel/accelerator.h"

namespace anyaccel::llm {

c10::Device compute_device() {
  auto& accelerator = get_accelerator();
  accelerator.set_device(accelerator.current_device());
  return accelerator.torch_device();
}

}  // namespace anyaccel::llm
