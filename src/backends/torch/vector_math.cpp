// LibTorch's vector functions on the host (exp, log, tanh, sin, ...) are MKL's. MKL finds out at
// their first call which processor this is, and notes that without a lock: for a moment the note
// holds another list's number, which on processors with AVX-512 makes a second thread take the
// kernels of least accuracy: up to 4090 units in the last place of a float are wrong instead of 1.
// Torch makes that first call from several threads when the tensor is large. So it is made here, by
// one thread at load. Seen with MKL 2024.2 of LibTorch 2.13 (mkl_vml_serv_cpu_detect writes the
// processor's number, 9, and then in its place the list's, 5): in 6 of 5000 processes on a busy
// machine the first tanh of 36100 values had one thread's part, or one of eight, off by up to 871
// units.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tanh.h>
#include <c10/core/InferenceMode.h>

namespace anyaccel::torch_parts {
namespace {

bool settle_vector_math() noexcept {
  try {
    const c10::InferenceMode no_gradients;
    float value = 0.5F, result = 0;  // on memory of ours: nobody's statistics change
    const auto options = at::TensorOptions().dtype(at::kFloat);
    auto out = at::from_blob(&result, {1}, options);
    at::tanh_out(out, at::from_blob(&value, {1}, options));
    return true;
  } catch (...) {  // a LibTorch without that kernel has nothing to settle
    return false;
  }
}

[[maybe_unused]] const bool settled_at_load = settle_vector_math();

}  // namespace
}  // namespace anyaccel::torch_parts
