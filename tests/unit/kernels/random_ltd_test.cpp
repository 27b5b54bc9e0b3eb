// Tests the CUDA kernel that copies tokens by running its thread blocks on the host.
#include "kernels/random_ltd/tokens.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "unit/kernels/arrays.h"
#include "unit/kernels/rounds.h"

namespace {

using namespace anyaccel::ops;

struct Sixteen {
  std::uint64_t words[2];
};

struct Case {
  std::vector<char> whole, part;
  std::vector<std::int64_t> wide;
  std::vector<std::int32_t> narrow;
  TokenCopy copy;
  std::int64_t rows;
};

/// Returns a case whose token size is a multiple of `unit` bytes, with gaps between tokens and some
/// invalid indices.
Case random_case(op_tests::Random& random, std::int64_t unit) {
  Case out;
  TokenCopy& copy = out.copy;
  const std::int64_t batch = random.whole(1, 3);
  copy.bytes = unit * random.whole(0, 5);
  copy.tokens = random.whole(1, 9);
  copy.count = random.whole(1, copy.tokens);
  copy.whole_token = copy.bytes + unit * random.whole(0, 2);
  copy.part_token = copy.bytes + unit * random.whole(0, 2);
  copy.whole_batch = copy.tokens * copy.whole_token + unit;
  copy.part_batch = copy.count * copy.part_token + unit;
  out.rows = batch * copy.count;
  for (std::int64_t i = 0; i < out.rows; ++i) {
    // Each valid index occurs once, because the order of two writes to one token is undefined.
    const std::int64_t id = (i % copy.count + 3) % copy.tokens;
    out.wide.push_back(random.once_in(6) ? (random.once_in(2) ? -1 : copy.tokens) : id);
    out.narrow.push_back(static_cast<std::int32_t>(out.wide.back()));
  }
  out.whole.resize(static_cast<std::size_t>(batch * copy.whole_batch + 64));
  out.part.resize(static_cast<std::size_t>(batch * copy.part_batch + 64));
  for (char& byte : out.whole) byte = static_cast<char>(random.whole(1, 127));
  for (char& byte : out.part) byte = static_cast<char>(random.whole(1, 127));
  return out;
}

template <typename Unit, typename Id>
void run_blocks(const Case& arguments, bool gather) {
  constexpr unsigned threads = 3;
  for (std::int64_t row = arguments.rows; row-- > 0;)
    for (unsigned thread = 0; thread < threads; ++thread) {
      if (gather)
        copy_token_block<Unit, Id, true>(arguments.copy, row, thread, threads);
      else
        copy_token_block<Unit, Id, false>(arguments.copy, row, thread, threads);
    }
}

template <typename Unit>
void compare(op_tests::Random& random, bool gather, bool wide) {
  Case arguments = random_case(random, sizeof(Unit));
  Case want = arguments;
  const auto begin = [](std::vector<char>& bytes) {
    char* at = bytes.data();
    return at + (16 - reinterpret_cast<std::uintptr_t>(at) % 16) % 16;
  };
  arguments.copy.whole = begin(arguments.whole);
  arguments.copy.part = begin(arguments.part);
  arguments.copy.ids =
      wide ? static_cast<const void*>(arguments.wide.data()) : arguments.narrow.data();
  EXPECT_GE(token_unit(arguments.copy), static_cast<int>(sizeof(Unit)));
  want.copy.whole = want.whole.data() + (arguments.copy.whole - arguments.whole.data());
  want.copy.part = want.part.data() + (arguments.copy.part - arguments.part.data());
  for (std::int64_t i = 0; i < arguments.rows; ++i) {
    const std::int64_t batch = i / arguments.copy.count;
    const std::int64_t id = arguments.wide[static_cast<std::size_t>(i)];
    char* part = want.copy.part + batch * arguments.copy.part_batch +
                 i % arguments.copy.count * arguments.copy.part_token;
    char* whole =
        want.copy.whole + batch * arguments.copy.whole_batch + id * arguments.copy.whole_token;
    const auto bytes = static_cast<std::size_t>(arguments.copy.bytes);
    if (id < 0 || id >= arguments.copy.tokens) {
      if (gather) std::memset(part, 0, bytes);
    } else {
      std::memcpy(gather ? part : whole, gather ? whole : part, bytes);
    }
  }
  if (wide)
    run_blocks<Unit, std::int64_t>(arguments, gather);
  else
    run_blocks<Unit, std::int32_t>(arguments, gather);
  EXPECT_EQ(arguments.whole, want.whole);
  EXPECT_EQ(arguments.part, want.part);
}

// Fails if a token or byte is copied to the wrong place, an invalid index is used, or the gaps
// between tokens are overwritten.
TEST(RandomLtd, BlocksCopyTheirTokens) {
  op_tests::Random random(51);
  for (int i = 0; i < op_tests::rounds(200); ++i) {
    const bool gather = i % 2 == 0, wide = i % 4 < 2;
    compare<Sixteen>(random, gather, wide);
    compare<std::uint64_t>(random, gather, wide);
    compare<std::uint32_t>(random, gather, wide);
    compare<std::uint16_t>(random, gather, wide);
    compare<std::uint8_t>(random, gather, wide);
  }
}

// Fails if the copy unit exceeds the alignment of an address, a stride or a length.
TEST(RandomLtd, CopyUnitRespectsAllAlignments) {
  alignas(16) char memory[64];
  const TokenCopy all{memory, 64, 32, memory, 64, 32, nullptr, 1, 1, 32};
  EXPECT_EQ(token_unit(all), 16);
  const auto with = [&](auto change) {
    TokenCopy copy = all;
    change(copy);
    return token_unit(copy);
  };
  EXPECT_EQ(with([](TokenCopy& copy) { copy.whole += 8; }), 8);
  EXPECT_EQ(with([](TokenCopy& copy) { copy.part += 1; }), 1);
  EXPECT_EQ(with([](TokenCopy& copy) { copy.whole_batch = 68; }), 4);
  EXPECT_EQ(with([](TokenCopy& copy) { copy.whole_token = 34; }), 2);
  EXPECT_EQ(with([](TokenCopy& copy) { copy.part_batch = 72; }), 8);
  EXPECT_EQ(with([](TokenCopy& copy) { copy.part_token = 33; }), 1);
  EXPECT_EQ(with([](TokenCopy& copy) { copy.bytes = 36; }), 4);
}

}  // namespace
