// Runs the kernel launches of kernels/ on host memory, so that their callers can be tested without
// a device.
#include "unit/kernels/host_attention.h"
#include "unit/kernels/host_rows.h"

namespace anyaccel::ops {
namespace {

template <typename Call>
const char* with_element(Element element, const Call& call) {
  op_tests::with_device_type(element, call);
  return nullptr;
}

/// The host type that represents a device type.
template <typename S>
struct OnDevice {
  using type = S;
};
template <>
struct OnDevice<Bf16> {
  using type = op_tests::DeviceBf16;
};
template <>
struct OnDevice<Fp16> {
  using type = op_tests::DeviceFp16;
};
template <typename S>
using Device = typename OnDevice<S>::type;

template <template <typename> class Pass, typename S>
Pass<Device<S>> of_device(const Pass<S>& pass) {
  Pass<Device<S>> out;
  static_assert(sizeof out == sizeof pass);
  std::memcpy(static_cast<void*>(&out), &pass, sizeof out);
  return out;
}

}  // namespace

const char* cuda_attention_forward(const AttentionLaunch<float>& launch, Element element, void*) {
  return with_element(element, [&](auto t) {
    op_tests::run_attention_forward<decltype(t)>(launch, op_tests::Run::forwards);
  });
}

const char* cuda_attention_forward(const AttentionLaunch<double>& launch, void*) {
  op_tests::run_attention_forward<double>(launch, op_tests::Run::forwards);
  return nullptr;
}

const char* cuda_attention_backward(const AttentionLaunch<float>& launch, Element element, void*) {
  return with_element(element, [&](auto t) {
    op_tests::run_attention_backward<decltype(t)>(launch, op_tests::Run::forwards);
  });
}

const char* cuda_attention_backward(const AttentionLaunch<double>& launch, void*) {
  op_tests::run_attention_backward<double>(launch, op_tests::Run::forwards);
  return nullptr;
}

template <typename S>
const char* device_add_norm(const AddNorm<S>& pass, std::int64_t rows, void*) {
  op_tests::run_add_norm(of_device(pass), rows, false);
  return nullptr;
}

template <typename S>
const char* device_norm_grad(const NormGrad<S>& pass, std::int64_t rows,
                             typename RealOf<S>::type* parts, void*) {
  op_tests::run_norm_grad(of_device(pass), rows, parts, false);
  return nullptr;
}

template <typename S>
const char* device_gelu(const Gelu<S>& pass, std::int64_t rows, void*) {
  op_tests::run_gelu(of_device(pass), rows);
  return nullptr;
}

template <typename S>
const char* device_gelu_grad(const Gelu<S>& pass, S* grad, std::int64_t rows,
                             typename RealOf<S>::type* parts, void*) {
  op_tests::run_gelu_grad(of_device(pass), reinterpret_cast<Device<S>*>(grad), rows, parts);
  return nullptr;
}

template <typename S>
const char* device_column_sums(const S* from, std::int64_t columns, std::int64_t rows,
                               typename RealOf<S>::type* parts, void*) {
  op_tests::run_column_sums(reinterpret_cast<const Device<S>*>(from), columns, rows, parts);
  return nullptr;
}

template <typename S>
const char* device_sum_parts(const PartSums<S>& sums, void*) {
  op_tests::run_sum_parts(of_device(sums), false);
  return nullptr;
}

ANYACCEL_DEVICE_ROWS(float);
ANYACCEL_DEVICE_ROWS(Bf16);
ANYACCEL_DEVICE_ROWS(Fp16);
ANYACCEL_DEVICE_ROWS(double);

}  // namespace anyaccel::ops
