#include "topology/arm_processor.h"

#include <gtest/gtest.h>

namespace anyaccel::topology {
namespace {

// Fails if two processors with the same part number and different implementers are confused.
TEST(ArmProcessor, KnownParts) {
  EXPECT_EQ(arm_processor("0x41", "0xd0c").model, "Neoverse-N1");
  EXPECT_EQ(arm_processor("0x41", "0xd49").model, "Neoverse-N2");
  EXPECT_EQ(arm_processor("0x6d", "0xd49").model, "Azure-Cobalt-100");
  const auto kunpeng = arm_processor("0x48", "0xd01");
  EXPECT_EQ(kunpeng.vendor, "HiSilicon");
  EXPECT_EQ(kunpeng.model, "TaiShan-v110");
}

TEST(ArmProcessor, UnknownParts) {
  EXPECT_EQ(arm_processor("0x41", "0xfff").vendor, "ARM");
  EXPECT_EQ(arm_processor("0x41", "0xfff").model, "ARM processor, part 0xfff");
  EXPECT_EQ(arm_processor("0x7f", "0xd0c").vendor, "implementer 0x7f");
}

// Fails if text that is not a number gets a name, as on x86-64, where both fields are missing.
TEST(ArmProcessor, NotANumber) {
  for (const char* text : {"", "0x", "41", "0x41 ", "0xd0cq", "0xfffffffff"}) {
    EXPECT_EQ(arm_processor(text, "0xd0c").model, "") << text;
    EXPECT_EQ(arm_processor("0x41", text).model, "") << text;
  }
}

}  // namespace
}  // namespace anyaccel::topology
