#include "llm/data/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace anyaccel::llm {
namespace {

void add_text(ExampleStore& store, std::uint32_t length) {
  std::vector<std::int64_t> ids(length);
  std::iota(ids.begin(), ids.end(), std::int64_t{100});
  store.add(ids, std::vector<TokenSpan>{{0, length}});
}

/// A conversation of which only the tokens in `learned` contribute to the loss.
void add_chat(ExampleStore& store, std::uint32_t length, const std::vector<TokenSpan>& learned) {
  store.add(std::vector<std::int64_t>(length, 7), learned);
}

std::vector<std::int64_t> labels(const ExampleStore& store, std::size_t example,
                                 std::uint32_t begin, std::uint32_t count) {
  std::vector<std::int64_t> ids(count), out(count);
  store.read(example, begin, count, ids.data(), out.data());
  return out;
}

// Fails if tokens are stored in too few bytes, or if a range of an example has wrong labels.
TEST(ExampleStore, TokensAndLabels) {
  for (const std::int64_t vocabulary : {65536, 65537}) {
    ExampleStore store(vocabulary);
    const std::int64_t high = vocabulary - 1;
    store.add(std::vector<std::int64_t>{high, 2, 3}, std::vector<TokenSpan>{{0, 3}});
    store.add(std::vector<std::int64_t>{1, 2, 3, high, 5, 6},
              std::vector<TokenSpan>{{1, 2}, {3, 5}});
    EXPECT_EQ(labels(store, 0, 0, 3), (std::vector<std::int64_t>{high, 2, 3}));
    EXPECT_EQ(labels(store, 1, 0, 6), (std::vector<std::int64_t>{-100, 2, -100, high, 5, -100}));
    EXPECT_EQ(labels(store, 1, 3, 2), (std::vector<std::int64_t>{high, 5}));
    EXPECT_EQ(store.learned_in(1, 1, 3), 2);
    EXPECT_EQ(store.learned_tokens(), 2 + 3);
    EXPECT_EQ(store.tokens(), 9);
  }
}

// Fails if data that differ only in a token, a label or a boundary have the same fingerprint.
TEST(ExampleStore, Fingerprint) {
  std::set<std::uint64_t> seen;
  const auto add = [&](auto fill) {
    ExampleStore store(100);
    fill(store);
    EXPECT_TRUE(seen.insert(store.fingerprint()).second);
  };
  add([](ExampleStore& store) { add_chat(store, 4, {{0, 4}}); });
  add([](ExampleStore& store) { add_chat(store, 4, {{1, 4}}); });
  add([](ExampleStore& store) { add_chat(store, 3, {{0, 3}}), add_chat(store, 1, {{0, 1}}); });
  add([](ExampleStore& store) {
    store.add(std::vector<std::int64_t>{7, 7, 8, 7}, std::vector<TokenSpan>{{0, 4}});
  });
}

// Fails if a token of a long text is predicted twice or never, or if a long conversation is not cut
// off.
TEST(Rows, LongExamples) {
  ExampleStore store(1000);
  add_text(store, 25);
  add_chat(store, 25, {{2, 12}});
  const Rows rows(store, 10, false, 0);
  std::vector<int> predicted(25);
  std::size_t conversations = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows.row(i).size(), 1U);
    const RowPart part = rows.row(i)[0];
    EXPECT_LE(part.length, 10U);
    if (part.example == 1) {
      ++conversations;
      EXPECT_EQ(part.begin, 0U);
      continue;
    }
    for (std::uint32_t t = part.begin + 1; t < part.begin + part.length; ++t) ++predicted[t];
  }
  EXPECT_EQ(predicted[0], 0);
  EXPECT_TRUE(std::all_of(predicted.begin() + 1, predicted.end(), [](int n) { return n == 1; }));
  EXPECT_EQ(conversations, 1U);
  EXPECT_EQ(rows.truncated(), 1);
}

// Fails if an example without a token to predict gets a row: it has one token, only its first token
// is learned, or its learned tokens are cut off.
TEST(Rows, NothingToPredict) {
  ExampleStore store(1000);
  add_text(store, 1);
  add_chat(store, 5, {{0, 1}});
  add_chat(store, 30, {{20, 30}});
  add_chat(store, 5, {{4, 5}});
  const Rows rows(store, 10, true, 0);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.row(0)[0].example, 3U);
  EXPECT_EQ(rows.left_out(), 3);
}

// Fails if packing loses or repeats a sequence, overfills a row, or leaves much space unused.
TEST(Rows, Packing) {
  ExampleStore store(1000);
  std::uint32_t length = 1;
  for (int i = 0; i < 2000; ++i) {
    length = (length * 37 + 11) % 97;
    add_text(store, 2 + length);
  }
  const Rows rows(store, 128, true, 5);
  std::set<std::uint32_t> seen;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::uint32_t sum = 0;
    for (const RowPart& part : rows.row(i)) {
      EXPECT_TRUE(seen.insert(part.example).second);
      EXPECT_EQ(part.length, store.length(part.example));
      sum += part.length;
    }
    EXPECT_LE(sum, 128U);
  }
  EXPECT_EQ(seen.size(), store.size());
  EXPECT_GT(static_cast<double>(rows.tokens()) / (128.0 * static_cast<double>(rows.size())), 0.95);
}

// Fails if held-out sequences are also trained on, if some sequences are in neither part, or if the
// choice does not depend on the seed.
TEST(Rows, HoldOut) {
  ExampleStore store(1000);
  for (int i = 0; i < 100; ++i) add_text(store, 4);
  const auto examples = [&](std::uint64_t seed, bool held_out) {
    const Rows rows(store, 16, true, seed, {.fraction = 0.1, .held_out = held_out});
    std::set<std::uint32_t> out;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const RowPart& part : rows.row(i)) out.insert(part.example);
    }
    return out;
  };
  const auto held = examples(1, true), rest = examples(1, false);
  EXPECT_EQ(held.size(), 10U);
  EXPECT_EQ(rest.size(), 90U);
  for (const std::uint32_t one : held) EXPECT_FALSE(rest.contains(one));
  EXPECT_NE(held, examples(2, true));
}

// Fails if an epoch repeats or misses a row, if all epochs have the same order, or if a position
// gives a different row when the order is computed from that position on.
TEST(RowOrder, Epochs) {
  constexpr std::size_t kRows = 50;
  RowOrder order(kRows, 3);
  std::vector<std::size_t> all;
  for (std::uint64_t i = 0; i < 3 * kRows; ++i) all.push_back(order.at(i));
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(epoch * kRows);
    EXPECT_EQ(std::set<std::size_t>(begin, begin + kRows).size(), kRows);
  }
  EXPECT_FALSE(std::equal(all.begin(), all.begin() + kRows, all.begin() + kRows));
  RowOrder resumed(kRows, 3);
  for (std::uint64_t i = 70; i < 130; ++i) EXPECT_EQ(resumed.at(i), all[i]);
  EXPECT_NE(RowOrder(kRows, 4).at(0) * 50 + RowOrder(kRows, 4).at(1), all[0] * 50 + all[1]);
}

// Fails if the order of the data changes between releases or machines. A resumed run would then see
// different rows.
TEST(RowOrder, FixedValues) {
  EXPECT_EQ(shuffled(8, 42, 1), shuffled(8, 42, 1));
  std::vector<std::uint32_t> sorted = shuffled(1000, 7, 2);
  EXPECT_NE(sorted[0], 0U);
  std::sort(sorted.begin(), sorted.end());
  for (std::uint32_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], i);
}

}  // namespace
}  // namespace anyaccel::llm
