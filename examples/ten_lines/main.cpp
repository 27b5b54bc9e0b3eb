#include <ATen/ops/randn.h>
#include <anyaccel/anyaccel.h>

#include <iostream>

int main() {
  auto& accelerator = anyaccel::get_accelerator();
  at::Tensor x = at::randn({1024, 1024}, accelerator.torch_device());
  at::Tensor y = x.mm(x.t()).trace();
  accelerator.synchronize();
  std::cout << accelerator.device_name() << " of " << accelerator.device_count() << ": trace "
            << y.item<float>() << ", " << accelerator.memory_allocated() << " bytes in use\n";
}
