#include "anyaccel/llm/tokenizer.h"

#include <gtest/gtest.h>

#include <sstream>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

using Ids = std::vector<std::int64_t>;
using testing::HasSubstr;

// Fails if a saved byte tokenizer does not give the same ids after loading.
TEST(Tokenizer, BytesRoundTrip) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", Tokenizer::bytes_json());
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const Tokenizer& tokenizer : {Tokenizer::load(folder.path()), Tokenizer::bytes()}) {
    for (int byte = 0; byte < 256; ++byte)
      EXPECT_EQ(tokenizer.token_bytes(byte), all.substr(static_cast<std::size_t>(byte), 1));
    const Ids ids = tokenizer.encode("h\xc3\xa9<|endoftext|>x");
    EXPECT_EQ(ids, Ids({104, 0xc3, 0xa9, 256, 120}));
    EXPECT_EQ(tokenizer.decode(ids), "h\xc3\xa9x");
    EXPECT_EQ(tokenizer.decode(ids, false), "h\xc3\xa9<|endoftext|>x");
    // Invalid UTF-8 is replaced when encoding and decoding, as in Python and the `tokenizers`
    // library.
    EXPECT_EQ(tokenizer.encode("a\xff\xe2\x82 b"),
              Ids({97, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd, 32, 98}));
    EXPECT_EQ(tokenizer.decode({0xc3, 97}),
              "\xef\xbf\xbd"
              "a");
    EXPECT_EQ(tokenizer.size(), 257);
    // As in transformers, ids without a token decode to an empty string, because a model's
    // vocabulary may be larger than the tokenizer's.
    EXPECT_EQ(tokenizer.token_bytes(257), "");
    EXPECT_EQ(tokenizer.decode({9999, 104, 257, 4294967295, 105}), "hi");
    EXPECT_EQ(tokenizer.decode({9999, 104, 257, 105}, false), "hi");
    EXPECT_ERROR(tokenizer.token_bytes(-1), invalid_argument, "-1");
    EXPECT_ERROR(tokenizer.decode({104, 4294967296}), invalid_argument, "4294967296");
  }
}

std::string bpe(const std::string& merges, const std::string& level = R"("use_regex":false)",
                const std::string& more = "") {
  return R"({"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,)" +
         level + "}" + more +
         R"(,"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4,"abc":5,"Ġ":6,"aa":7},"merges":)" +
         merges + "}}";
}

// Fails if merges are not applied in order of rank, leftmost first.
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
  EXPECT_EQ(old_style.encode("adb"),
            Ids({3}));  // unknown characters are dropped, as in the `tokenizers` library
}

// Fails if an unknown step in tokenizer.json is ignored instead of rejected.
TEST(Tokenizer, UnsupportedStepsAreErrors) {
  const TemporaryFolder folder;
  const auto expect = [&](const std::string& json, const char* text) {
    folder.write("tokenizer.json", json);
    EXPECT_ERROR(Tokenizer::load(folder.path()), unsupported, text);
  };
  const auto step = [](const std::string& key, const std::string& value) {
    return R"({"model":{"type":"WordLevel","vocab":{"a":0}},")" + key + "\":" + value + "}";
  };
  expect(R"({"model":{"type":"Bigram","vocab":{}}})", "Bigram");
  expect(R"({"model":{"type":"BPE","vocab":{},"merges":[],"dropout":0.1}})", "dropout");
  expect(step("normalizer", R"({"type":"Rot13"})"), "Rot13");
  expect(
      step("normalizer", R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Rot13"}]})"),
      "normalizers[1]");
  expect(step("pre_tokenizer", R"({"type":"UnicodeScripts"})"), "UnicodeScripts");
  expect(step("post_processor", R"({"type":"Frame"})"), "Frame");
  expect(step("decoder", R"({"type":"CTC"})"), "CTC");
  folder.write("tokenizer.json", bpe(R"(["a x"])"));
  EXPECT_ERROR(Tokenizer::load(folder.path()), corrupt, "a x");
}

// Fails if a malformed file is accepted, or read past its end.
TEST(Tokenizer, CorruptFilesAreErrors) {
  const TemporaryFolder folder;
  const auto expect = [&](const std::string& json, const char* text) {
    folder.write("tokenizer.json", json);
    EXPECT_ERROR(Tokenizer::load(folder.path()), corrupt, text);
  };
  const std::string model = R"("model":{"type":"WordLevel","vocab":{"a":0}})";
  expect("{}", "model");
  expect(R"({"model":{"type":"Unigram","vocab":[["a",-1]],"unk_id":1}})", "unk_id");
  expect(R"({"model":{"type":"Unigram","vocab":[["a"]]}})", "malformed vocabulary entry");
  expect("{" + model + R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="}})",
         "truncated");
  expect("{" + model + R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":"?"}})",
         "base64");
  expect("{" + model +
             R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"}})",
         "regular expression");
  expect("{" + model + R"(,"pre_tokenizer":{"type":"Metaspace","replacement":"ab"}})",
         "one character");
  expect("{" + model + R"(,"added_tokens":[7]})", "not an object");
  expect(
      "{" + model +
          R"(,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}}})",
      "missing \"x\"");
}

// Fails if an error prints a long text from a file in full, or prints control characters unescaped.
TEST(Tokenizer, UntrustedTextIsQuoted) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& json) -> std::string {
    folder.write("tokenizer.json", json);
    try {
      (void)Tokenizer::load(folder.path());
    } catch (const Error& error) {
      EXPECT_LT(std::string_view(error.what()).size(), 1500U);
      return error.what();
    }
    return "it was read";
  };
  const std::string model = R"("model":{"type":"WordLevel","vocab":{"a":0}})";
  const std::string deep(150'000, '(');
  EXPECT_THAT(
      message("{" + model +
              R"(,"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":")" +
              deep + std::string(deep.size(), ')') + "\"}}}"),
      HasSubstr("(300000 bytes)"));
  EXPECT_THAT(message(R"({"model":{"type":"\u001b[31mBPE\u202e"}})"),
              HasSubstr(R"(model "\x1b[31mBPE\u202e")"));
  EXPECT_THAT(message("{" + model + R"(,"normalizer":{"type":"\u009b"}})"),
              HasSubstr(R"(normalizer "\u009b")"));
  EXPECT_THAT(message(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[")" +
                      std::string(9999, 'x') + R"( a"]}})"),
              HasSubstr("(10001 bytes)"));
  EXPECT_THAT(message(R"({"model":{"type":"WordLevel","vocab":{"\u001b":"a"}}})"),
              HasSubstr(R"("\x1b")"));
}

// Fails if a NUL character truncates a token when its id is looked up.
TEST(Tokenizer, WordsMayContainNul) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json",
               R"({"model":{"type":"WordLevel","vocab":{"a":0,"a\u0000b":1},"unk_token":"a"}})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode(std::string_view("a\0b", 3)), Ids{1});
}

// Fails if the error about excessive backtracking lacks the file or the cause.
TEST(Tokenizer, BacktrackingIsAnError) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"},
    "pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?:a|aa)+[bc]"},"behavior":"Isolated"}})");
  const auto tokenizer = Tokenizer::load(folder.path());
  const std::string text(5000, 'a');
  EXPECT_ERROR(tokenizer.encode(text), invalid_argument, "tokenizer.json, pre_tokenizer");
  EXPECT_ERROR(tokenizer.encode(text), invalid_argument, "backtracks too much");
}

// Fails if a precompiled character map is misread. This map has one entry, from "A" to "a".
TEST(Tokenizer, Charsmap) {
  const TemporaryFolder folder;
  folder.write(
      "tokenizer.json",
      R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},"normalizer":{"type":"Precompiled",
    "precompiled_charsmap":"DAEAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABBCQAAAAAAAAAAAABhAA=="}})");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("AbaB"), Ids({0, 1, 0}));
}

// Fails if token_bytes(), which is used to print generated text, treats each token as the first
// token of a text.
TEST(Tokenizer, TokenBytesAreForTheMiddleOfAText) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"model":{"type":"BPE","byte_fallback":true,"merges":[],
    "vocab":{"\u2581a":0,"b":1,"<0xC3>":2,"<0xA9>":3}},"decoder":{"type":"Sequence","decoders":[
    {"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
    {"type":"Strip","content":" ","start":1,"stop":0}]}})");
  const Tokenizer llama = Tokenizer::load(folder.path());
  EXPECT_EQ(llama.decode({0, 1, 2, 3, 0}), "ab\xc3\xa9 a");
  EXPECT_EQ(llama.token_bytes(0), " a");
  EXPECT_EQ(llama.token_bytes(2), "\xc3");
  folder.write(
      "tokenizer.json",
      R"({"model":{"type":"WordPiece","vocab":{"a":0,"##b":1,"[UNK]":2}},"decoder":{"type":"WordPiece"}})");
  const Tokenizer bert = Tokenizer::load(folder.path());
  EXPECT_EQ(bert.decode({0, 1, 0}), "ab a");
  EXPECT_EQ(bert.token_bytes(1), "b");
  EXPECT_EQ(bert.token_bytes(0), " a");
}

// Fails if truncation drops special tokens, or changes a text that fits.
TEST(Tokenizer, EncodeUpTo) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json",
               R"({"model":{"type":"WordPiece","vocab":{"a":0,"b":1,"[UNK]":2,"[CLS]":3,"[SEP]":4}},
    "pre_tokenizer":{"type":"Whitespace"},"post_processor":{"type":"BertProcessing","cls":["[CLS]",3],"sep":["[SEP]",4]}})");
  const Tokenizer framed = Tokenizer::load(folder.path());
  EXPECT_EQ(framed.encode_up_to("a b a b", 6), framed.encode("a b a b"));
  EXPECT_EQ(framed.encode_up_to("a b a b", 5), Ids({3, 0, 1, 0, 4}));
  EXPECT_EQ(framed.encode_up_to("a b", 2), Ids({3, 4}));
  EXPECT_ERROR(
      framed.encode_up_to("a", 1), invalid_argument,
      "max_tokens is too small for the special tokens around a text; got 1, want at least 2");
  EXPECT_EQ(Tokenizer::bytes().encode_up_to("abc", 2), Ids({97, 98}));
  EXPECT_TRUE(Tokenizer::bytes().encode_up_to("abc", 0).empty());
}

// Fails if WordPiece does not prefer the longest token, or takes quadratic time for a long word.
// The test's timeout detects slow searches.
TEST(Tokenizer, WordPieceTakesTheLongestWord) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& vocabulary) {
    folder.write("tokenizer.json",
                 R"({"model":{"type":"WordPiece","max_input_chars_per_word":4294967296,"vocab":)" +
                     vocabulary + R"(},"pre_tokenizer":{"type":"Whitespace"}})");
    return Tokenizer::load(folder.path());
  };
  const Tokenizer small = load(
      R"({"[UNK]":0,"a":1,"ab":2,"##a":3,"##ab":4,"##b":5,"##bab":6,"abb":7,"x##a":8,"##":9})");
  EXPECT_EQ(small.encode("ab"), Ids({2}));
  EXPECT_EQ(small.encode("aba"), Ids({2, 3}));
  EXPECT_EQ(small.encode("abab"), Ids({2, 4}));  // not a, ##bab: the longest token wins
  EXPECT_EQ(small.encode("abbabab"), Ids({7, 4, 4}));
  EXPECT_EQ(small.encode("aab"), Ids({1, 4}));
  EXPECT_EQ(small.encode("b"), Ids({0}));         // exists only as a continuation
  EXPECT_EQ(small.encode("abx a"), Ids({0, 1}));  // one unknown part makes the whole word unknown
  const std::string a(200'000, 'a');
  const Tokenizer greedy =
      load(R"({"[UNK]":0,"a":1,"##a":2,"##)" + a + R"(b":3,")" + a + R"(c":4})");
  EXPECT_EQ(greedy.encode(std::string(1'000'000, 'a')).size(), 1'000'000U);
  EXPECT_EQ(greedy.encode("a" + a + "b"), Ids({1, 3}));
}

// Fails if a long pre-token takes more than O(n log n) time. The test's timeout detects this.
TEST(Tokenizer, LongPieces) {
  const TemporaryFolder folder;
  folder.write(
      "tokenizer.json",
      R"({"model":{"type":"BPE","vocab":{"a":0,"aa":1,"aaaa":2},"merges":["a a","aa aa"]}})");
  const std::string text(1'000'000, 'a');
  EXPECT_EQ(Tokenizer::load(folder.path()).encode(text).size(), 250'000U);
  folder.write(
      "tokenizer.json",
      R"({"model":{"type":"Unigram","vocab":[["<unk>",0],["a",-1],["aaaa",-2]],"unk_id":0}})");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode(text).size(), 250'000U);
}

// Fails if scores are parsed more precisely than in the `tokenizers` library. The library chooses
// "a" and "b" here, although the exact sum of their scores does not exceed the score of "ab".
TEST(Tokenizer, UnigramScoresMatchTheLibrary) {
  const TemporaryFolder folder;
  for (const char* scores : {"-10.061084568662261 -11.9637369406482 -22.024821509310463",
                             "-8.254257034681185 -7.229255894975742 -15.483512929656927",
                             "-11.29790412129638 -8.227085154171464 -19.524989275467846",
                             "-10.213479069941478 -5.41131227479059 -15.624791344732067"}) {
    std::istringstream in(scores);
    std::string a, b, ab;
    in >> a >> b >> ab;
    ASSERT_LE(std::stod(a) + std::stod(b), std::stod(ab));
    folder.write("tokenizer.json",
                 R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",-50.0],["a",)" + a +
                     R"(],["b",)" + b + R"(],["ab",)" + ab + "]]}}");
    EXPECT_EQ(Tokenizer::load(folder.path()).encode("ab"), Ids({1, 2})) << scores;
  }
}

}  // namespace
}  // namespace anyaccel::llm
