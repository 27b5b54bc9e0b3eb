// Tests when MKL selects its vector math kernels. MKL calls mkl_serv_vml_cpu_detect() to do so, and
// this program replaces that function to count the calls.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace {

constinit int calls = 0;
using Detect = int (*)();
Detect mkl_detect() {
  return reinterpret_cast<Detect>(::dlsym(RTLD_NEXT, "mkl_serv_vml_cpu_detect"));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int mkl_serv_vml_cpu_detect() {
  ++calls;
  return mkl_detect()();
}

namespace {

// Fails if MKL selects its kernels only when the first vector math function is called. Another
// thread could then use an incomplete selection.
TEST(VectorMathTest, MklSelectsItsKernelsAtLoad) {
  if (mkl_detect() == nullptr) GTEST_SKIP() << "this LibTorch has no MKL";
  const int at_load = calls;
  EXPECT_GT(at_load, 0);
  at::tanh(at::ones({4}));
  EXPECT_EQ(calls, at_load);
}

}  // namespace
