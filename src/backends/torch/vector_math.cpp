// LibTorch takes its vector functions on the host (exp, log, tanh, sin, ...) from MKL. On their
// first call, MKL detects the processor and stores the result without a lock. It first stores a
// processor number, and then replaces it with the number that selects the kernels. On processors
// with AVX-512, a second thread that reads the first number selects the least accurate kernels,
// with errors of up to 4090 units in the last place of a float instead of 1. If the tensor is
// large, torch makes the first call from several threads at once. Therefore, one thread makes it
// here at load time. Seen with MKL 2024.2 in LibTorch 2.13: mkl_vml_serv_cpu_detect writes the
// processor number, 9, and then replaces it with 5. In 6 of 5000 processes on a busy machine, the
// first tanh of 36100 elements had errors of up to 871 units in the elements that one of the
// threads computed.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tanh.h>
#include <c10/core/InferenceMode.h>

namespace anyaccel::torch_parts {
namespace {

bool settle_vector_math() noexcept {
  try {
    const c10::InferenceMode no_gradients;
    float value = 0.5F, result = 0;  // on the stack, so that memory statistics do not change
    const auto options = at::TensorOptions().dtype(at::kFloat);
    auto out = at::from_blob(&result, {1}, options);
    at::tanh_out(out, at::from_blob(&value, {1}, options));
    return true;
  } catch (...) {  // a LibTorch without that kernel does not have the problem
    return false;
  }
}

[[maybe_unused]] const bool settled_at_load = settle_vector_math();

}  // namespace
}  // namespace anyaccel::torch_parts
