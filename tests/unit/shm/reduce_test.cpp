// Tests the reductions for each instruction set against a reference with wider types and against
// each other.
#include "comm/shm/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace anyaccel::ops::shm {
namespace {

std::vector<const Kernels*> sets() {
  std::vector<const Kernels*> found;
  for (const char* name : {"baseline", "avx2", "avx512", "neon_bf16"})
    if (const auto* set = kernels(name)) found.push_back(set);
  return found;
}

#if defined(__aarch64__)
// The other tests leave out sets that the CPU does not support. This test names them.
TEST(ShmReduce, AllNeonSetsAreTested) {
  if (!kernels("neon_bf16")) GTEST_SKIP() << "this CPU does not support neon_bf16";
  EXPECT_STREQ(kernels("neon_bf16")->name, "neon_bf16");
}
#endif

template <class T>
T reference(Reduce reduce, const std::vector<std::vector<T>>& ranks, std::size_t i) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, long double, std::uint64_t>;
  Wide sum = 0;
  Wide product = 1;
  T least = ranks[0][i];
  T most = ranks[0][i];
  for (const auto& rank : ranks) {
    sum += static_cast<Wide>(rank[i]);
    product *= static_cast<Wide>(rank[i]);
    least = std::min(least, rank[i]);
    most = std::max(most, rank[i]);
  }
  switch (reduce) {
    case Reduce::sum: return static_cast<T>(sum);
    case Reduce::avg: return static_cast<T>(sum / static_cast<Wide>(ranks.size()));
    case Reduce::product: return static_cast<T>(product);
    case Reduce::min: return least;
    default: return most;
  }
}

template <class T>
void check(Kind kind) {
  std::mt19937 random(1);
  for (const auto* set : sets())
    for (const auto reduce : {Reduce::sum, Reduce::avg, Reduce::product, Reduce::min, Reduce::max})
      for (const int ranks : {1, 2, 3, 5})
        for (const std::size_t count : {0, 1, 15, 17, 512, 1023}) {
          if (!can_reduce(kind, reduce)) continue;
          std::vector<std::vector<T>> data(static_cast<std::size_t>(ranks), std::vector<T>(count));
          for (auto& rank : data)
            for (auto& value : rank) {
              if constexpr (std::is_floating_point_v<T>)
                value = std::normal_distribution<T>()(random);
              else
                value = static_cast<T>(random() * 0x100000001ULL);
            }
          const auto before = data;
          std::vector<const void*> sources;
          for (const auto& rank : data) sources.push_back(rank.data());
          // The output replaces the data of the last rank, as in a real group.
          set->reduce(kind, reduce, data.back().data(), sources.data(), ranks, count);
          for (std::size_t i = 0; i < count; ++i) {
            const T want = reference(reduce, before, i);
            if constexpr (std::is_floating_point_v<T>)
              ASSERT_NEAR(data.back()[i], want, std::numeric_limits<T>::epsilon() * 32)
                  << set->name << ranks;
            else
              ASSERT_EQ(data.back()[i], want)
                  << set->name << " " << ranks << " " << count << " " << static_cast<int>(reduce);
          }
        }
}

// Fails if a loop skips the last elements, or writes output before it has read all inputs.
TEST(ShmReduce, EveryTypeMatchesTheReference) {
  check<float>(Kind::f32);
  check<double>(Kind::f64);
  check<std::int8_t>(Kind::i8);
  check<std::uint8_t>(Kind::u8);
  check<std::int16_t>(Kind::i16);
  check<std::uint16_t>(Kind::u16);
  check<std::int32_t>(Kind::i32);
  check<std::uint32_t>(Kind::u32);
  check<std::int64_t>(Kind::i64);
  check<std::uint64_t>(Kind::u64);
}

std::vector<std::uint16_t> reduced(const Kernels& set, Kind kind, Reduce reduce,
                                   const std::vector<std::vector<std::uint16_t>>& ranks) {
  std::vector<const void*> sources;
  for (const auto& rank : ranks) sources.push_back(rank.data());
  std::vector<std::uint16_t> out(ranks[0].size());
  set.reduce(kind, reduce, out.data(), sources.data(), static_cast<int>(ranks.size()), out.size());
  return out;
}

// Fails if adding -0 changes a 16-bit value, including subnormal and infinite values. NaNs must
// stay NaNs.
TEST(ShmReduce, EveryHalfPrecisionValueRoundTrips) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const std::vector<std::uint16_t> minus_zero(all.size(), 0x8000);
  for (const auto* set : sets())
    for (const auto kind : {Kind::f16, Kind::bf16}) {
      const auto infinity = kind == Kind::f16 ? 0x7c00 : 0x7f80;
      const auto out = reduced(*set, kind, Reduce::sum, {all, minus_zero});
      for (std::size_t i = 0; i < all.size(); ++i) {
        if ((i & 0x7fff) > static_cast<std::size_t>(infinity))
          ASSERT_GT(out[i] & 0x7fff, infinity) << set->name << " NaN " << i;
        else
          ASSERT_EQ(out[i], all[i]) << set->name;
      }
    }
}

// Fails if instruction sets round differently. Ranks on different CPUs would then diverge.
TEST(ShmReduce, AllInstructionSetsAgreeBitwise) {
  std::mt19937 random(2);
  std::vector<std::vector<std::uint16_t>> ranks(3, std::vector<std::uint16_t>(20000));
  for (auto& rank : ranks)
    for (auto& value : rank)
      value = static_cast<std::uint16_t>(random() & 0xbfff);  // no NaNs; their payloads may differ
  for (const auto kind : {Kind::f16, Kind::bf16})
    for (const auto reduce :
         {Reduce::sum, Reduce::avg, Reduce::product, Reduce::min, Reduce::max}) {
      const auto want = reduced(*kernels("baseline"), kind, reduce, ranks);
      for (const auto* set : sets())
        EXPECT_EQ(reduced(*set, kind, reduce, ranks), want) << set->name;
    }
}

// Fails if bfloat16 sums are rounded after each addition, so that 256 + 1 + 1 gives 256.
TEST(ShmReduce, HalfPrecisionSumsAreRoundedOnce) {
  const std::vector<std::vector<std::uint16_t>> ranks{{0x4380}, {0x3f80}, {0x3f80}};  // 256, 1, 1
  for (const auto* set : sets())
    EXPECT_EQ(reduced(*set, Kind::bf16, Reduce::sum, ranks)[0], 0x4381) << set->name;
}

// Fails if a reduction drops a NaN that only one rank has.
TEST(ShmReduce, NanIsPropagated) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto* set : sets())
    for (const auto reduce : {Reduce::min, Reduce::max, Reduce::sum}) {
      std::vector<float> a(40, 1);
      std::vector<float> b(40, 2);
      a[3] = nan;
      b[38] = nan;
      const void* sources[] = {a.data(), b.data()};
      std::vector<float> out(40);
      set->reduce(Kind::f32, reduce, out.data(), sources, 2, out.size());
      EXPECT_TRUE(std::isnan(out[3]) && std::isnan(out[38]) && !std::isnan(out[4])) << set->name;
    }
}

// Fails if the sum of two bools is 2 instead of true.
TEST(ShmReduce, BoolsStayBools) {
  const std::uint8_t a[] = {0, 0, 1, 1};
  const std::uint8_t b[] = {0, 1, 0, 1};
  const void* sources[] = {a, b};
  std::uint8_t out[4];
  for (const auto* set : sets()) {
    set->reduce(Kind::boolean, Reduce::sum, out, sources, 2, 4);
    EXPECT_EQ(std::memcmp(out, "\0\1\1\1", 4), 0);
    set->reduce(Kind::boolean, Reduce::product, out, sources, 2, 4);
    EXPECT_EQ(std::memcmp(out, "\0\0\0\1", 4), 0);
  }
}

}  // namespace
}  // namespace anyaccel::ops::shm
