#include "base/fnv1a.h"

#include <gtest/gtest.h>

namespace anyaccel {
namespace {

// Fails if the hash differs from the 64-bit test vectors of the FNV Internet draft.
TEST(Fnv1a, PublishedValues) {
  EXPECT_EQ(fnv1a(kFnv1aStart, ""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(fnv1a(kFnv1aStart, "a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a(kFnv1aStart, "foobar"), 0x85944171f73967e8ULL);
}

// Fails if bytes above 127 are sign-extended, so that their hash differs from that of the integer.
TEST(Fnv1a, BytesAreUnsigned) {
  EXPECT_EQ(fnv1a(kFnv1aStart, "\xff"), fnv1a(kFnv1aStart, std::uint64_t{255}));
}

}  // namespace
}  // namespace anyaccel
