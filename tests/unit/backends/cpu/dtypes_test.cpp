#include "backends/cpu/dtypes.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

namespace anyaccel::backends::cpu {
namespace {

using c10::ScalarType;

bool works(const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

at::Tensor matrix(ScalarType type) { return at::empty({4, 4}, type).fill_(1); }

bool stores(ScalarType type) {
  return works([&] {
    const auto target = c10::isComplexType(type) ? ScalarType::ComplexFloat : ScalarType::Float;
    const auto there = at::ones({4, 4}, at::kFloat).to(type);
    auto copy = at::empty({4, 4}, type);
    copy.copy_(there);
    ASSERT_EQ(copy.to(target)[3][3].item<float>(), 1.0f);
  });
}

bool computes(ScalarType type) {
  return works([&] { matrix(type).add(matrix(type)); }) &&
         works([&] { matrix(type).mul(matrix(type)); }) &&
         works([&] { at::mm(matrix(type), matrix(type)); });
}

// Fails if the table disagrees with torch about any dtype of this LibTorch.
TEST(CpuDtypes, MatchTorch) {
  for (int i = 0; i < static_cast<int>(ScalarType::NumOptions); ++i) {
    const auto type = static_cast<ScalarType>(i);
    if (type == ScalarType::Undefined || c10::isQIntType(type)) continue;
    EXPECT_EQ(dtype_support(type).storable, stores(type)) << c10::toString(type);
    EXPECT_EQ(dtype_support(type).computable, computes(type)) << c10::toString(type);
  }
}

// Fails if a dtype is fast but not computable, or computable but not storable.
TEST(CpuDtypes, AreConsistent) {
  for (int i = 0; i < static_cast<int>(ScalarType::NumOptions); ++i) {
    const auto support = dtype_support(static_cast<ScalarType>(i));
    EXPECT_LE(support.fast, support.computable) << i;
    EXPECT_LE(support.computable, support.storable) << i;
    EXPECT_LE(support.reducible, support.storable) << i;
  }
  EXPECT_FALSE(dtype_support(ScalarType::QInt8).storable);
}

// Fails if a dtype counts as fast on a CPU without the required instructions. /proc/cpuinfo serves
// as an independent source.
TEST(CpuDtypes, FastRequiresInstructions) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line) && !line.starts_with("flags") &&
         !line.starts_with("Features")) {
  }
  if (line.empty()) GTEST_SKIP() << "the kernel lists no CPU flags";
  const auto has = [&](const char* flag) { return line.find(flag) != std::string::npos; };
  const bool bf16 = has("avx512_bf16") || has(" bf16");
  EXPECT_EQ(dtype_support(ScalarType::BFloat16).fast, bf16);
  if (dtype_support(ScalarType::Half).fast) {
    EXPECT_TRUE(has("avx512_fp16") || has("amx_fp16") || has("asimdhp") || has("avx_ne_convert"));
  }
  EXPECT_TRUE(dtype_support(ScalarType::BFloat16).computable);
}

}  // namespace
}  // namespace anyaccel::backends::cpu
