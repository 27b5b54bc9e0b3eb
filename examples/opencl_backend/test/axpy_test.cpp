// Loads the op through the accelerator, as other programs do, and compares its result with torch's.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <anyaccel/anyaccel.h>

#include <iostream>

int main() {
  auto& accelerator = anyaccel::get_accelerator();
  accelerator.create_op_builder("AxpyBuilder")->load();
  const auto axpy = c10::Dispatcher::singleton()
                        .findSchemaOrThrow("ocl::axpy", "")
                        .typed<at::Tensor(const at::Tensor&, const at::Tensor&, double)>();
  const auto x = at::randn({100, 7}, accelerator.torch_device());
  const auto y = at::randn({100, 7}, accelerator.torch_device());
  const auto out = axpy.call(x, y, 2.5);
  const bool good = accelerator.on_accelerator(out) && at::allclose(out, x.mul(2.5).add(y));
  std::cout << accelerator.name() << ": axpy is " << (good ? "right" : "wrong") << '\n';
  return good ? 0 : 1;
}
