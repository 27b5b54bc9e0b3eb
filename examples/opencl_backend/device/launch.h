// Programs and kernel launches. A program is compiled once per process; OpenCL implementations also
// cache compiled programs on disk.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>

#include "device/runtime.h"

namespace ocl_backend {

/// Sets the folder that contains the .cl files.
void set_source_folder(std::string folder);

struct Kernel;

/// Returns a kernel of a .cl file. `defines` are compiler options such as "-DT=float".
Kernel& kernel(const std::string& file, const std::string& name, const std::string& defines = {});
/// Returns the kernel `name` of a program that consists of opencl/types.cl and `source`.
Kernel& generated_kernel(const std::string& name, const std::string& source);

/// Pointer argument of a kernel: shared virtual memory.
struct Pointer {
  const void* address;
};
inline Pointer in(const at::Tensor& tensor) { return {tensor.const_data_ptr()}; }
inline Pointer out(const at::Tensor& tensor) { return {tensor.mutable_data_ptr()}; }

/// Returns the word that kernels set when their input is invalid, see check_failure().
Pointer failure_flag(c10::DeviceIndex device);

/// One launch. Holds the kernel's lock while arguments are set.
class Launch {
 public:
  Launch(Kernel& kernel, c10::DeviceIndex device);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  Launch& arg(Pointer pointer);
  template <class Value>
  Launch& arg(const Value& value) {
    set(&value, sizeof value);
    return *this;
  }
  template <class... Values>
  Launch& args(const Values&... values) {
    (arg(values), ...);
    return *this;
  }
  /// Enqueues the kernel on the current stream. `global` is rounded up to a multiple of `local`.
  void run(std::size_t global, std::size_t local);
  void run(std::array<std::size_t, 3> global, std::array<std::size_t, 3> local);

 private:
  void set(const void* value, std::size_t bytes);
  Kernel& kernel_;
  Queue& queue_;
  cl_uint next_ = 0;
};

/// Returns the suffix of a dtype's macros in opencl/types.cl, or null if kernels do not support it.
const char* type_name(at::ScalarType type);
/// Returns the dtype of the same size whose values any kernel can copy, or null.
const char* raw_name(at::ScalarType type);
/// Returns the OpenCL type in which kernels compute: float, double or long.
const char* compute_name(at::ScalarType type);

}  // namespace ocl_backend
