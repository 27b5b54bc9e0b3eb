// Quantized, sparse and nested tensors on the simulated device.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_empty_affine_quantized.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/sim.h"

namespace anyaccel {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class SimLayouts : public testing::Test {
 protected:
  void SetUp() override { sim::install({}); }
  c10::Device device{c10::DeviceType::PrivateUse1, 0};
  at::Tensor host = at::randn({4, 6});
};

/// Returns the message of the error that `call` throws.
template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

// Fails if quantizing on the device, or copying a quantized tensor, changes the values.
TEST_F(SimLayouts, QuantizedTensorsHaveTheValuesOfTheCPU) {
  const auto expected = at::quantize_per_tensor(host, 0.1, 10, at::kQInt8);
  const auto ours = at::quantize_per_tensor(host.to(device), 0.1, 10, at::kQInt8);
  EXPECT_EQ(ours.device(), device);
  EXPECT_EQ(ours.scalar_type(), at::kQInt8);
  EXPECT_DOUBLE_EQ(ours.q_scale(), 0.1);
  EXPECT_TRUE(ours.dequantize().cpu().equal(expected.dequantize()));
  EXPECT_TRUE(ours.int_repr().cpu().equal(expected.int_repr()));
  EXPECT_TRUE(ours.cpu().equal(expected));
  EXPECT_TRUE(expected.to(device).dequantize().cpu().equal(expected.dequantize()));
}

// Fails if a per-channel scale or zero point is lost.
TEST_F(SimLayouts, QuantizesPerChannel) {
  const auto scales = at::randn({4}).abs() + 0.01;
  const auto zeros = at::zeros({4}, at::kLong);
  const auto expected = at::quantize_per_channel(host, scales, zeros, 0, at::kQInt8);
  const auto ours =
      at::quantize_per_channel(host.to(device), scales.to(device), zeros.to(device), 0, at::kQInt8);
  EXPECT_EQ(ours.device(), device);
  EXPECT_TRUE(ours.dequantize().cpu().equal(expected.dequantize()));
}

// Fails if an in-place op writes to a copy instead of the device tensor.
TEST_F(SimLayouts, WritesQuantizedTensorsInPlace) {
  const auto x = at::quantize_per_tensor(host.to(device), 0.1, 0, at::kQInt8);
  x.copy_(at::zeros({4, 6}));
  EXPECT_TRUE(x.dequantize().cpu().equal(at::zeros({4, 6})));
}

// Fails if an op of a sparse tensor, or a copy between host and device, changes the values.
TEST_F(SimLayouts, SparseTensorsHaveTheValuesOfTheCPU) {
  const auto ours = at::eye(3).to(device).to_sparse();
  EXPECT_EQ(ours.device(), device);
  EXPECT_EQ(ours.layout(), at::kSparse);
  EXPECT_TRUE((ours + at::eye(3).to_sparse().to(device)).to_dense().cpu().equal(at::eye(3) * 2));
  EXPECT_TRUE(ours.cpu().to_dense().equal(at::eye(3)));
}

// Fails if an op without support for a layout does not throw a one-line error that names the op and
// the layout.
TEST_F(SimLayouts, CompressedTensorsAreRejectedWithOneLine) {
  for (const auto& message :
       {message_of([&] { (void)at::eye(3).to(device).to_sparse_csr(); }),
        message_of([&] { (void)at::eye(3).to_sparse_csr().to(device).to_dense(); })}) {
    EXPECT_THAT(message, HasSubstr("[sim] aten::"));
    EXPECT_THAT(message, ContainsRegex("SparseCsr|compressed sparse"));
    EXPECT_THAT(message, HasSubstr("compute on the host"));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace anyaccel
