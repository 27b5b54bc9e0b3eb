// Generates kernels that compute each element on its own, from an expression, the operands' dtypes
// and the number of inputs.
#include <c10/core/DeviceGuard.h>

#include <array>
#include <sstream>

#include "ops/ops.h"

namespace ocl_backend {
namespace {

using at::Scalar;
using at::ScalarType;
using at::Tensor;
using at::TensorIteratorBase;
using at::TensorIteratorConfig;

constexpr int kDims = 8;
constexpr int kOperands = 4;

/// Argument of generated kernels; generated_source() declares the same structure.
struct Shape {
  cl_uint count = 0;
  cl_uint dims = 0;
  std::array<cl_uint, kDims> sizes{};
  std::array<std::array<cl_int, kDims>, kOperands> strides{};
};

/// Returns the source of a kernel. `dtypes` are those of the output and the inputs in memory; a
/// null input is a parameter of the kernel.
std::string generated_source(const std::string& name, const std::string& expression,
                             const std::string& compute, const std::vector<const char*>& dtypes,
                             bool dense) {
  std::ostringstream out;
  out << "typedef " << compute << " C;\n"
      << "typedef struct { uint count, dims; uint sizes[8]; int strides[4][8]; } Shape;\n"
      << "__kernel void " << name << "(Shape s";
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    if (dtypes[i] != nullptr)
      out << ", __global " << (i > 0 ? "const " : "") << "TYPE(" << dtypes[i] << ")* m" << i;
    else
      out << ", C m" << i;
  out << ", C p0, C p1, C p2) {\n"
      << "  const uint i = get_global_id(0);\n  if (i >= s.count) return;\n";
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    out << "  int x" << i << " = " << (dense ? "i" : "0") << ";\n";
  if (!dense) {
    out << "  uint rest = i;\n  for (uint d = 0; d < s.dims; ++d) {\n"
        << "    const int x = rest % s.sizes[d];\n    rest /= s.sizes[d];\n";
    for (std::size_t i = 0; i < dtypes.size(); ++i)
      out << "    x" << i << " += x * s.strides[" << i << "][d];\n";
    out << "  }\n";
  }
  for (std::size_t i = 1; i < dtypes.size(); ++i) {
    out << "  const C " << static_cast<char>('a' + i - 1) << " = ";
    if (dtypes[i] != nullptr)
      out << "(C)LOAD(" << dtypes[i] << ", m" << i << ", x" << i << ");\n";
    else
      out << "m" << i << ";\n";
  }
  out << "  STORE(" << dtypes[0] << ", m0, x0, " << expression << ");\n}\n";
  return out.str();
}

/// Sets a scalar argument in the type that the kernel computes in.
void set_scalar(Launch& launch, const Scalar& value, const std::string& compute) {
  if (compute == "float")
    launch.arg(value.to<float>());
  else if (compute == "double")
    launch.arg(value.to<double>());
  else
    launch.arg(static_cast<cl_long>(value.to<std::int64_t>()));
}

void run(const char* name, const std::string& expression, TensorIteratorBase& iterator,
         const std::string& compute, const std::vector<Scalar>& parameters) {
  Shape shape;
  shape.count = static_cast<cl_uint>(iterator.numel());
  shape.dims = static_cast<cl_uint>(iterator.ndim());
  std::vector<const char*> dtypes;
  bool dense = iterator.ndim() <= 1;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    const bool scalar = i > 0 && iterator.is_cpu_scalar(i);
    dtypes.push_back(scalar ? nullptr : type_name(iterator.dtype(i)));
    if (scalar) continue;
    const auto size = static_cast<std::int64_t>(c10::elementSize(iterator.dtype(i)));
    for (int d = 0; d < iterator.ndim(); ++d) {
      shape.sizes[static_cast<std::size_t>(d)] = static_cast<cl_uint>(iterator.shape()[d]);
      const auto stride = iterator.strides(i)[static_cast<std::size_t>(d)] / size;
      shape.strides[static_cast<std::size_t>(i)][static_cast<std::size_t>(d)] =
          static_cast<cl_int>(stride);
      if (stride != 1) dense = false;
    }
  }
  const auto source = generated_source(name, expression, compute, dtypes, dense);
  const auto device = iterator.tensor(0).device().index();
  std::vector<Scalar> scalars;  // reading a host scalar must not happen under the kernel's lock
  for (int i = 1; i < iterator.ntensors(); ++i)
    if (dtypes[static_cast<std::size_t>(i)] == nullptr)
      scalars.push_back(iterator.tensor(i).item());
  Launch launch(generated_kernel(name, source), device);
  launch.arg(shape);
  std::size_t next = 0;
  for (int i = 0; i < iterator.ntensors(); ++i)
    if (dtypes[static_cast<std::size_t>(i)] != nullptr)
      launch.arg(Pointer{iterator.data_ptr(i)});
    else
      set_scalar(launch, scalars[next++], compute);
  for (std::size_t i = 0; i < 3; ++i)
    set_scalar(launch, i < parameters.size() ? parameters[i] : Scalar(0), compute);
  launch.run(shape.count, 64);
}

}  // namespace

bool pointwise(const char* name, const std::string& expression, TensorIteratorBase& iterator,
               ScalarType compute, const std::vector<Scalar>& parameters) {
  if (iterator.numel() == 0) return true;
  if (iterator.ndim() > kDims || iterator.ntensors() > kOperands) return false;
  for (int i = 0; i < iterator.ntensors(); ++i)
    if (type_name(iterator.dtype(i)) == nullptr) return false;
  const c10::DeviceGuard guard(iterator.tensor(0).device());
  if (iterator.can_use_32bit_indexing()) {
    run(name, expression, iterator, compute_name(compute), parameters);
  } else {
    for (auto& part : iterator.with_32bit_indexing())
      run(name, expression, part, compute_name(compute), parameters);
  }
  return true;
}

bool copy_on_device(const Tensor& target, const Tensor& source) {
  if (type_name(target.scalar_type()) == nullptr || type_name(source.scalar_type()) == nullptr)
    return false;
  auto iterator = TensorIteratorConfig()
                      .set_check_mem_overlap(true)
                      .check_all_same_dtype(false)
                      .add_output(target)
                      .add_const_input(source)
                      .resize_outputs(false)
                      .build();
  return pointwise("copy", "a", iterator, source.scalar_type());
}

}  // namespace ocl_backend
