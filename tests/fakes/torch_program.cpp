// A program that uses only torch, for the tests of `anyaccel sim run`.
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>

#include <cstdio>

int main() {
  const auto type = at::accelerator::getAccelerator();
  if (!type) return std::puts("no accelerator"), 1;
  const auto sum = at::ones({4}, at::TensorOptions().device(*type)).sum().item<double>();
  std::printf("%s %d %g\n", c10::DeviceTypeName(*type, true).c_str(),
              static_cast<int>(at::accelerator::deviceCount()), sum);
  return 0;
}
