// Matrix products: one kernel for mm, addmm, addmv, bmm and baddbmm, in any layout.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/mm_meta.h>
#include <c10/core/DeviceGuard.h>

#include "ops/ops.h"

namespace ocl_backend {
namespace {

using at::Scalar;
using at::Tensor;

/// Argument of the kernel; opencl/matmul.cl declares the same structure. Strides are in elements
/// and in the order batch, row, column.
struct Shape {
  cl_int rows, columns, inner;
  cl_int a[3], b[3], bias[3];
  cl_float alpha, beta;
};

/// out = beta * bias + alpha * a @ b, for matrices with a batch dimension. `bias` may be undefined.
bool multiply(const Tensor& bias, const Tensor& a, const Tensor& b, double beta, double alpha,
              const Tensor& out) {
  if (!usable({a, b, out}) || !out.is_contiguous()) return false;
  if (bias.defined() && !usable({bias, out})) return false;
  Shape shape{};
  shape.rows = static_cast<cl_int>(a.size(1));
  shape.columns = static_cast<cl_int>(b.size(2));
  shape.inner = static_cast<cl_int>(a.size(2));
  for (int d = 0; d < 3; ++d) {
    shape.a[d] = static_cast<cl_int>(a.stride(d));
    shape.b[d] = static_cast<cl_int>(b.stride(d));
    if (bias.defined()) shape.bias[d] = static_cast<cl_int>(bias.stride(d));
  }
  shape.alpha = static_cast<cl_float>(alpha);
  shape.beta = bias.defined() ? static_cast<cl_float>(beta) : 0;
  const c10::DeviceGuard guard(out.device());
  constexpr std::size_t kTile = 32;  // TILE in matmul.cl
  const auto tiles = [](std::int64_t size) {
    return (static_cast<std::size_t>(size) + kTile - 1) / kTile;
  };
  const std::string defines = std::string("-DT=") + type_name(out.scalar_type());
  Launch(kernel("matmul.cl", "matmul", defines), out.device().index())
      .args(shape, in(a), in(b), in(bias.defined() ? bias : out), ocl_backend::out(out))
      .run({tiles(b.size(2)) * 16, tiles(a.size(1)) * 4, static_cast<std::size_t>(out.size(0))},
           {16, 4, 1});
  return true;
}

Tensor batched(const Tensor& matrix) { return matrix.unsqueeze(0); }

Tensor& mm(const Tensor& a, const Tensor& b, Tensor& out) {
  prepare<at::meta::structured_mm>({out}, a, b);
  if (multiply({}, batched(a), batched(b), 0, 1, batched(out))) return out;
  return host_op<at::_ops::mm_out>(a, b, out);
}

Tensor& bmm(const Tensor& a, const Tensor& b, Tensor& out) {
  prepare<at::meta::structured_bmm>({out}, a, b);
  if (multiply({}, a, b, 0, 1, out)) return out;
  return host_op<at::_ops::bmm_out>(a, b, out);
}

Tensor& addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
              const Scalar& alpha, Tensor& out) {
  prepare<at::meta::structured_addmm>({out}, self, a, b, beta, alpha);
  const bool reads = beta.toComplexDouble() != 0.0;
  const auto bias = reads ? batched(self.expand({a.size(0), b.size(1)})) : Tensor();
  if (!beta.isComplex() && !alpha.isComplex() &&
      multiply(bias, batched(a), batched(b), beta.toDouble(), alpha.toDouble(), batched(out)))
    return out;
  return host_op<at::_ops::addmm_out>(self, a, b, beta, alpha, out);
}

Tensor& addmv(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
              const Scalar& alpha, Tensor& out) {
  prepare<at::meta::structured_addmv>({out}, self, a, b, beta, alpha);
  const bool reads = beta.toComplexDouble() != 0.0;
  const auto column = [](const Tensor& vector) { return vector.unsqueeze(1).unsqueeze(0); };
  const auto bias = reads ? column(self.expand({a.size(0)})) : Tensor();
  if (!beta.isComplex() && !alpha.isComplex() &&
      multiply(bias, batched(a), column(b), beta.toDouble(), alpha.toDouble(), column(out)))
    return out;
  return host_op<at::_ops::addmv_out>(self, a, b, beta, alpha, out);
}

Tensor& baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                const Scalar& alpha, Tensor& out) {
  prepare<at::meta::structured_baddbmm>({out}, self, a, b, beta, alpha);
  const bool reads = beta.toComplexDouble() != 0.0;
  const auto bias = reads ? self.expand({a.size(0), a.size(1), b.size(2)}) : Tensor();
  if (!beta.isComplex() && !alpha.isComplex() &&
      multiply(bias, a, b, beta.toDouble(), alpha.toDouble(), out))
    return out;
  return host_op<at::_ops::baddbmm_out>(self, a, b, beta, alpha, out);
}

}  // namespace

void register_matmul(torch::Library& library) {
  library.impl("mm.out", TORCH_FN(mm));
  library.impl("bmm.out", TORCH_FN(bmm));
  library.impl("addmm.out", TORCH_FN(addmm));
  library.impl("addmv.out", TORCH_FN(addmv));
  library.impl("baddbmm.out", TORCH_FN(baddbmm));
}

}  // namespace ocl_backend
