#include "anyaccel/llm/tokenizer.h"

#include <gtest/gtest.h>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

using Ids = std::vector<std::int64_t>;

// Fails when reading back what we write does not give byte ids, or the special token is taken for text.
TEST(Tokenizer, BytesRoundTrip) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", Tokenizer::bytes_json());
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const Tokenizer& tokenizer : {Tokenizer::load(folder.path()), Tokenizer::bytes()}) {
    const Ids ids = tokenizer.encode(all + "<|endoftext|>x");
    ASSERT_EQ(ids.size(), 258U);
    for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[static_cast<std::size_t>(byte)], byte);
    EXPECT_EQ(ids[256], 256);
    EXPECT_EQ(tokenizer.decode(ids), all + "x");
    EXPECT_EQ(tokenizer.size(), 257);
    EXPECT_ERROR(tokenizer.token_bytes(257), invalid_argument, "257");
  }
}

std::string bpe(const std::string& merges, const std::string& level = R"("use_regex":false)",
                const std::string& more = "") {
  return R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,)" + level + "}" + more +
         R"(,"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4,"abc":5,"Ġ":6,"aa":7},"merges":)" + merges +
         "}}";
}

// Fails when merges are done in another order than by rank, leftmost first.
TEST(Tokenizer, Merges) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", bpe(R"(["b c","a b","a bc","a a"])"));
  const Tokenizer old_style = Tokenizer::load(folder.path());
  EXPECT_EQ(old_style.encode("abc"), Ids({5}));
  EXPECT_EQ(old_style.encode("ab c"), Ids({3, 6, 2}));
  EXPECT_EQ(old_style.encode("aaaabcc"), Ids({7, 0, 5, 2}));
  EXPECT_EQ(old_style.decode({5, 6, 3}), "abc ab");
  folder.write("tokenizer.json", bpe(R"([["a","b"],["b","c"],["a","a"]])"));
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("abcaaa"), Ids({3, 2, 7, 0}));
  EXPECT_ERROR(old_style.encode("d"), invalid_argument, "byte 100");
}

// Fails when a tokenizer that would split text otherwise is used as if it did not.
TEST(Tokenizer, UnsupportedIsNamed) {
  const TemporaryFolder folder;
  const auto expect = [&](const std::string& json, const char* text) {
    folder.write("tokenizer.json", json);
    EXPECT_ERROR(Tokenizer::load(folder.path()), unsupported, text);
  };
  expect(bpe(R"(["a b"])", R"("use_regex":true)"), "regular expression");
  expect(bpe(R"(["a b"])", R"("trim_offsets":true)"), "regular expression");
  expect(bpe("[]", R"("use_regex":false)", R"(,"normalizer":{"type":"NFC"})"), "NFC");
  expect(bpe("[]", R"("use_regex":false)", R"(,"post_processor":{"type":"TemplateProcessing"})"), "TemplateProcessing");
  expect(R"({"model":{"type":"Unigram","vocab":{}}})", "Unigram");
  expect(R"({"pre_tokenizer":{"type":"Metaspace"},"model":{"type":"BPE","vocab":{},"merges":[]}})", "Metaspace");
  folder.write("tokenizer.json", bpe(R"(["a x"])"));
  EXPECT_ERROR(Tokenizer::load(folder.path()), corrupt, "a x");
}

}  // namespace
}  // namespace anyaccel::llm
