#include "anyaccel/dtype.h"

#include "anyaccel/accelerator.h"
#include "unit/support/expect_error.h"
#include "unit/support/mock_backend.h"

namespace anyaccel {
namespace {

// Fails if a name is parsed as a different dtype, or an invalid name is accepted.
TEST(Dtype, Parse) {
  for (const auto* text : {"fp16", "float16", "half"}) EXPECT_EQ(parse_dtype(text), c10::kHalf);
  EXPECT_EQ(parse_dtype("bf16"), c10::kBFloat16);
  EXPECT_EQ(parse_dtype("fp32"), c10::kFloat);
  EXPECT_EQ(parse_dtype("double"), c10::kDouble);
  EXPECT_ERROR(parse_dtype("fp12"), invalid_argument, "\"fp12\"");
  EXPECT_ERROR(parse_dtype(""), invalid_argument, "fp32");
}

// Fails if a dtype's name differs from the one in Python, or does not round-trip.
TEST(Dtype, NamesMatchPython) {
  EXPECT_STREQ(dtype_name(c10::kHalf), "float16");
  EXPECT_STREQ(dtype_name(c10::kLong), "int64");
  EXPECT_STREQ(dtype_name(c10::kFloat8_e4m3fn), "float8_e4m3fn");
  for (const auto type : {c10::kFloat, c10::kDouble, c10::kHalf, c10::kBFloat16})
    EXPECT_EQ(parse_dtype(dtype_name(type)), type);
}

// Fails if fp16 counts as supported although it is not fast, or bf16 does not although it is
// computable.
TEST(Dtype, SupportFollowsDtypeTable) {
  struct Slow : test::MockBackend {
    using MockBackend::MockBackend;
    DtypeSupport dtype_support(DeviceIndex, c10::ScalarType) const override {
      return {.storable = true, .computable = true, .fast = false};
    }
  };
  const Accelerator accelerator(std::make_shared<Slow>(test::mock_traits("slow")));
  EXPECT_FALSE(accelerator.is_fp16_supported());
  EXPECT_TRUE(accelerator.is_bf16_supported());
  EXPECT_EQ(accelerator.supported_dtypes(),
            (std::vector<c10::ScalarType>{c10::kFloat, c10::kBFloat16}));
  EXPECT_GE(accelerator.dtype_table().size(), 20U);
}

}  // namespace
}  // namespace anyaccel
