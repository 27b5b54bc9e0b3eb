// Tests normalization and other tokenizer steps, and their limits.
#include <gtest/gtest.h>

#include "anyaccel/llm/tokenizer.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

using Ids = std::vector<std::int64_t>;

Tokenizer with_steps(const TemporaryFolder& folder, const std::string& steps,
                     const std::string& vocabulary) {
  folder.write(
      "tokenizer.json",
      "{" + steps + R"(,"model":{"type":"WordLevel","unk_token":"?","vocab":)" + vocabulary + "}}");
  return Tokenizer::load(folder.path());
}

std::string sequence(const std::string& key, const std::string& steps, const std::string& step,
                     int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += (all.empty() ? "" : ",") + step;
  return "\"" + key + R"(":{"type":"Sequence",")" + steps + "\":[" + all + "]}";
}

std::string replacement(const std::string& from, const std::string& to) {
  return R"({"type":"Replace","pattern":{"String":")" + from + R"("},"content":")" + to + "\"}";
}

// Fails if Metaspace prepends its replacement character to different pre-tokens than the
// `tokenizers` library, which decides by the original position of a pre-token's first byte.
// Normalization may turn one character into several (U+0E33 becomes U+0E4D and U+0E32) or remove
// it, and several pre-tokens may come from the first character.
TEST(Tokenizer, PrefixMarkFollowsTheAlignment) {
  const TemporaryFolder folder;
  const std::string metaspace =
      R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first"})";
  const std::string vocabulary =
      R"({"?":0,"_\u0e32":1,"\u0e32":2,"_a":3,"a":4,"_x":5,"x":6,"_b":7,"b":8})";
  const auto encode = [&](const std::string& normalizer, const std::string& text) {
    return with_steps(folder,
                      R"("normalizer":)" + normalizer +
                          R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[
      {"type":"Split","pattern":{"String":"b"},"behavior":"Isolated"},)" +
                          metaspace + "]}",
                      vocabulary)
        .encode(text);
  };
  const std::string stripped =
      R"({"type":"Sequence","normalizers":[{"type":"NFKD"},{"type":"StripAccents"},{"type":"Lowercase"}]})";
  EXPECT_EQ(encode(stripped, "\u0e33"), Ids({1}));
  EXPECT_EQ(encode(stripped, "\u0301a"), Ids({4}));
  EXPECT_EQ(encode(stripped, "\u00e1"), Ids({3}));
  EXPECT_EQ(encode(replacement("yy", "x"), "yy"), Ids({6}));  // aligned with the second y
  EXPECT_EQ(encode(replacement("y", "x"), "y"), Ids({5}));
  EXPECT_EQ(encode(replacement("y", "ab"), "y"), Ids({3, 7}));
  EXPECT_EQ(encode(replacement("y", "ab"), "xy"), Ids({0, 8}));  // "_xa" is one pre-token
  EXPECT_EQ(encode(replacement("y", ""), "ya"), Ids({4}));
}

// Fails if a tokenizer can expand a text without limit, or an ordinary expansion is rejected.
TEST(Tokenizer, ExcessiveExpansionIsRejected) {
  const TemporaryFolder folder;
  const std::string words = R"({"?":0,"a":1})", twice = replacement("a", "aa");
  const auto refused = [&](const std::string& steps, const std::string& text) {
    EXPECT_ERROR(with_steps(folder, steps, words).encode(text), invalid_argument,
                 "expands this text too much");
  };
  refused(sequence("normalizer", "normalizers", twice, 60), "a");
  refused(R"("normalizer":)" + replacement("a", std::string(100'000, 'b')), "aaa");
  refused(R"("normalizer":{"type":"Prepend","prepend":")" + std::string(100'000, 'b') + "\"}", "a");
  refused(sequence("normalizer", "normalizers", R"({"type":"ByteLevel"})", 60), "\u00e9");
  const std::string level = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  refused(sequence("pre_tokenizer", "pretokenizers", level, 60), "\u00e9");
  refused(
      R"("added_tokens":[{"id":7,"content":"<s>","special":true}],"normalizer":{"type":"Prepend","prepend":")" +
          std::string(2000, 'b') + "\"}",
      "a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>"
      "a<s>a<s>a<s>a<s>a<s>"
      "a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>a<s>");
  const Tokenizer decoder = with_steps(folder, sequence("decoder", "decoders", twice, 60), words);
  EXPECT_ERROR(decoder.decode({1}), invalid_argument, "expands this text too much");
  EXPECT_ERROR(decoder.token_bytes(1), invalid_argument, "expands this text too much");
  const std::string token = R"(,"added_tokens":[{"id":7,"content":"aaaa","normalized":true}])";
  EXPECT_ERROR(with_steps(folder, sequence("normalizer", "normalizers", twice, 60) + token, words),
               corrupt, "added_tokens[0]");

  const std::string nfkc = R"({"type":"NFKC"},{"type":"ByteLevel"})";  // U+FDFA: 3 bytes become 33
  std::string greedy;
  for (int i = 0; i < 100'000; ++i) greedy += "\ufdfa";
  EXPECT_EQ(
      with_steps(folder, sequence("normalizer", "normalizers", nfkc, 1), words).encode(greedy),
      Ids({0}));
}

// Fails if the number of steps or special tokens in a file is not limited.
TEST(Tokenizer, StepsAreLimited) {
  const TemporaryFolder folder;
  const std::string words = R"({"?":0,"a":1})", lower = R"({"type":"Lowercase"})";
  EXPECT_EQ(with_steps(folder, sequence("normalizer", "normalizers", lower, 64), words).encode("A"),
            Ids({1}));
  EXPECT_ERROR(with_steps(folder, sequence("normalizer", "normalizers", lower, 65), words),
               unsupported, "65 steps");
  std::string nested = lower + "," + lower;
  for (int i = 0; i < 6; ++i) {
    const std::string one = R"({"type":"Sequence","normalizers":[)" + nested + "]}";
    nested = one + "," + one;
  }
  EXPECT_ERROR(with_steps(folder, sequence("normalizer", "normalizers", nested, 1), words),
               unsupported, "128 steps");
  std::string ids, part = R"({"SpecialToken":{"id":"s"}})";
  for (int i = 0; i < 1000; ++i) ids += i == 0 ? "1" : ",1";
  const auto framed = [&](int parts) {
    std::string single = part;
    for (int i = 1; i < parts; ++i) single += "," + part;
    return with_steps(
        folder,
        R"("post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},)" +
            single + R"(],"special_tokens":{"s":{"ids":[)" + ids + "]}}}",
        words);
  };
  EXPECT_EQ(framed(4).encode("a").size(), 4001U);
  EXPECT_ERROR(framed(5), unsupported, "too many tokens");
}

// Fails if the search for added tokens takes more than linear time, for example because of long
// tokens, common prefixes or adjacent whitespace. The test's timeout detects this.
TEST(Tokenizer, ManyAddedTokens) {
  const TemporaryFolder folder;
  const auto with_tokens = [&](const auto& content, int count, const std::string& more) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      all += (i == 0 ? "" : ",") + (R"({"content":")" + content(i)) + R"(","id":)" +
             std::to_string(i + 2) + more + "}";
    }
    return with_steps(folder, R"("normalizer":{"type":"NFC"},"added_tokens":[)" + all + "]",
                      R"({"?":0,"x":1})");
  };
  const auto numbered = [](int i) { return "<|token_" + std::to_string(i) + "|>"; };
  EXPECT_EQ(
      with_tokens(numbered, 100'000, "").encode("x<|token_99999|><|token_7|>x<|token_100000|>"),
      Ids({1, 100'001, 9, 0}));
  const auto long_start = [](int i) { return std::string(20'000, 'a') + std::to_string(i); };
  EXPECT_EQ(with_tokens(long_start, 20, "").encode(std::string(1'000'000, 'a') + "7"), Ids({0, 9}));
  const auto longer = [](int i) { return std::string(static_cast<std::size_t>(i) + 1, 'a'); };
  const Tokenizer lengths = with_tokens(longer, 2000, "");
  EXPECT_EQ(lengths.encode(std::string(1'000'001, 'a')).size(),
            501U);  // tokens of the maximum length, 2000
  EXPECT_EQ(lengths.encode("xaaxaaa"), Ids({1, 3, 1, 4}));
  const auto space = [](int) { return std::string(" "); };
  EXPECT_EQ(with_tokens(space, 1, R"(,"rstrip":true)").encode(std::string(1'000'000, ' ') + "x"),
            Ids({2, 1}));
}

// Fails if sorting consecutive combining marks gives the wrong order or takes quadratic time.
TEST(Tokenizer, ConsecutiveCombiningMarks) {
  const TemporaryFolder folder;
  std::string marks, low, high;
  for (int i = 0; i < 300'000; ++i) {
    marks += "\u0301\u0316";
    high += "\u0301";
    low += "\u0316";
  }
  for (const char* form : {"NFC", "NFD", "NFKC", "NFKD"}) {
    const std::string steps = std::string(R"("normalizer":{"type":")") + form + "\"}";
    const std::string vocabulary = R"({"?":0,"x)" + low + high + "\":1}";
    EXPECT_EQ(with_steps(folder, steps, vocabulary).encode("x" + marks), Ids({1})) << form;
  }
}

}  // namespace
}  // namespace anyaccel::llm
