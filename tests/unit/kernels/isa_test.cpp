// Tests the names and the selection of instruction sets.
#include "kernels/simd/isa.h"

#include <gtest/gtest.h>

#include <string>

#include "unit/kernels/arrays.h"

namespace {

using anyaccel::ops::has_isa;
using anyaccel::ops::Isa;
using anyaccel::ops::isa_for;
using anyaccel::ops::to_string;
using anyaccel::ops::vector_sets;

TEST(Isa, NamesSelectSupportedSets) {
  for (const Isa isa : op_tests::decoder_sets()) EXPECT_EQ(isa_for(to_string(isa)), isa);
}

// Fails if an unsupported set is selected, which would end in an illegal instruction, or if a worse
// set is preferred.
TEST(Isa, OtherNamesSelectTheBestSet) {
  Isa best = Isa::scalar;
  for (const Isa isa : vector_sets)
    if (best == Isa::scalar && has_isa(isa)) best = isa;
  for (const char* name : {"", "sse9", "neon_", "AVX2"}) EXPECT_EQ(isa_for(name), best) << name;
  EXPECT_EQ(isa_for(nullptr), best);
  for (const Isa isa : vector_sets)
    EXPECT_EQ(isa_for(to_string(isa)), has_isa(isa) ? isa : best) << to_string(isa);
}

// Fails if code for a set may use instructions that the CPU lacks: each set on aarch64 includes the
// one before it.
TEST(Isa, NeonSetsIncludeEachOther) {
  EXPECT_TRUE(!has_isa(Isa::neon_dotprod) || has_isa(Isa::neon));
  EXPECT_TRUE(!has_isa(Isa::neon_i8mm) || has_isa(Isa::neon_dotprod));
  EXPECT_TRUE(!has_isa(Isa::neon_bf16) || has_isa(Isa::neon_i8mm));
}

#if defined(__aarch64__)
// The other tests leave out sets that the CPU does not support. This test names them.
TEST(Isa, AllNeonSetsAreTested) {
  std::string missing;
  for (const Isa isa : vector_sets)
    if (!has_isa(isa)) missing += std::string(missing.empty() ? "" : ", ") + to_string(isa);
  if (!missing.empty()) GTEST_SKIP() << "this CPU does not support " << missing;
}
#endif

}  // namespace
