#include "text/tokenizer/text_vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "anyaccel/llm/tokenizer.h"
#include "llm/data/corpus.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/text_pieces.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

using Stream = std::vector<std::uint16_t>;

Stream stream_of(const std::string& text) {
  Stream out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  out.push_back(kEndOfText);
  return out;
}

std::vector<std::string> by_scan(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    out.emplace_back(text.substr(0, piece_length(text)));
    text.remove_prefix(out.back().size());
  }
  return out;
}

std::vector<std::string> by_expression(const std::string& text) {
  static const Regex regex(kTextPieces, "test");
  std::vector<std::string> out;
  for (const auto& [begin, end] : regex.find_all(text))
    out.push_back(text.substr(begin, end - begin));
  return out;
}

/// Returns valid UTF-8 text with every kind of character that affects where the text is split.
std::string random_text(std::mt19937& random, std::size_t length) {
  const std::vector<std::string> symbols = {
      "a",  "Z",  "\u00e4", "\u4e2d", "\u00a0", "\u2028", "0",    "9",    " ",    " ", "\t", "\n",
      "\r", "\v", "/",      "_",      "{",      "~",      "\x7f", "\x01", "\x1c", "@", "`"};
  std::string out;
  for (std::size_t i = 0; i < length; ++i) out += symbols[random() % symbols.size()];
  return out;
}

const char* const kCode =
    "/// Returns the number of elements.\n  int64_t numel() const {\n    return size_ * 1024;\n  "
    "}\n\n"
    "\t// \u00dcber 12345 words\r\n#define AT_CHECK(x)  \\\n  check_it(x, __FILE__)\n";

// Fails if the scanner and the regular expression in tokenizer.json split a text differently.
// Generation would then use different tokens than training.
TEST(TextPieces, ScannerMatchesTheExpression) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(random, 1 + random() % 40);
    ASSERT_EQ(by_scan(text), by_expression(text)) << testing::PrintToString(text);
  }
  EXPECT_EQ(by_scan(kCode), by_expression(kCode));
  EXPECT_EQ(by_scan("  int x_y = 1234;\n\n  f();"),
            (std::vector<std::string>{" ", " int", " x", "_y", " =", " ", "123", "4", ";\n\n", " ",
                                      " f", "();"}));
}

// Fails if a pair that is not the most frequent one is merged, or the choice between equally
// frequent pairs depends on the order of the pre-tokens.
TEST(LearnMerges, MostFrequentPairFirst) {
  const std::vector<PieceCount> pieces = {
      {"abab", 3}, {"abc", 2}, {"xy", 7}, {"pq", 7}, {"once", 1}};
  const Merges merges = learn_merges(pieces, 10, 257);
  const Merges expected = {{'a', 'b'}, {'p', 'q'}, {'x', 'y'}, {257, 257}, {257, 'c'}};
  // ab occurs 8 times, pq and xy 7 times, abab 3 times, abc twice, and all other pairs once.
  EXPECT_EQ(merges, expected);
  EXPECT_EQ(learn_merges({pieces.rbegin(), pieces.rend()}, 10, 257), expected);
  EXPECT_EQ(learn_merges(pieces, 2, 257).size(), 2U);
}

// Fails if two merges produce the same text. tokenizer.json can represent only one of them.
TEST(LearnMerges, MergesProduceUniqueTexts) {
  std::vector<PieceCount> pieces;
  std::mt19937 random(2);
  for (int i = 0; i < 400; ++i) {
    std::string text;
    for (std::size_t n = 2 + random() % 12; n > 0; --n)
      text += static_cast<char>('a' + random() % 3);
    pieces.emplace_back(text, 1 + random() % 9);
  }
  const Merges merges = learn_merges(pieces, 300, 257);
  std::vector<std::string> texts(257);
  for (int c = 0; c < 256; ++c) texts[static_cast<std::size_t>(c)] = static_cast<char>(c);
  for (const auto& [left, right] : merges) texts.push_back(texts[left] + texts[right]);
  std::sort(texts.begin() + 257, texts.end());
  EXPECT_EQ(std::unique(texts.begin() + 257, texts.end()), texts.end());
  EXPECT_GT(merges.size(), 100U);
}

Stream code_stream() {
  Stream stream;
  for (int i = 0; i < 3000; ++i) {
    const Stream one = stream_of(kCode + std::to_string(i * i) + "\n");
    stream.insert(stream.end(), one.begin(), one.end());
  }
  return stream;
}

// Fails if training and tokenizer.json produce different ids, or the ids do not decode to the text.
TEST(TextVocabulary, IdsMatchTheTokenizer) {
  const TextVocabulary vocabulary = TextVocabulary::learn(code_stream(), 4096);
  const TemporaryFolder folder;
  folder.write("tokenizer.json", vocabulary.json());
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.size(), vocabulary.size());
  std::mt19937 random(3);
  for (const std::string& text :
       {std::string(kCode), random_text(random, 3000), std::string("Returns the size_ 1024")}) {
    const Stream ids = vocabulary.encode(stream_of(text));
    ASSERT_EQ(ids.back(), kEndOfText);
    const std::vector<std::int64_t> wide(ids.begin(), ids.end() - 1);
    EXPECT_EQ(wide, tokenizer.encode(text));
    EXPECT_EQ(tokenizer.decode(wide), text);
    std::size_t bytes = 0;
    for (const auto id : wide) bytes += vocabulary.lengths()[static_cast<std::size_t>(id)];
    EXPECT_EQ(bytes, text.size());
  }
  EXPECT_LT(vocabulary.encode(stream_of(kCode)).size(), std::string(kCode).size() * 2 / 3);
}

// Fails if a short text yields tokens that are too rare to be useful, or the byte vocabulary has
// changed.
TEST(TextVocabulary, ShortTextsStayBytes) {
  EXPECT_EQ(TextVocabulary::learn(stream_of(std::string(60'000, 'a')), 4096).size(),
            kByteVocabulary);
  const TextVocabulary bytes = TextVocabulary::learn(code_stream(), kByteVocabulary);
  EXPECT_EQ(bytes.json(), Tokenizer::bytes_json());
  EXPECT_EQ(bytes.encode(stream_of("abc")), stream_of("abc"));
  EXPECT_EQ(TextVocabulary::learn(code_stream(), 4096).size(),
            kByteVocabulary + static_cast<std::int64_t>((code_stream().size() - 65536) / 1024));
}

// Fails if a resumed run uses different ids, or accepts an incompatible file.
TEST(TextVocabulary, RoundTripsThroughJson) {
  const TextVocabulary vocabulary = TextVocabulary::learn(code_stream(), 4096);
  const TextVocabulary again = TextVocabulary::read(vocabulary.json(), "again");
  EXPECT_EQ(again.json(), vocabulary.json());
  EXPECT_EQ(again.encode(stream_of(kCode)), vocabulary.encode(stream_of(kCode)));
  EXPECT_EQ(TextVocabulary::read("", "none").json(), Tokenizer::bytes_json());
  EXPECT_EQ(TextVocabulary::read(Tokenizer::bytes_json(), "bytes").size(), kByteVocabulary);

  const auto with = [&](const std::string& from, const std::string& to) {
    std::string json = vocabulary.json();
    const std::size_t at = json.find(from);
    EXPECT_NE(at, std::string::npos);
    return json.replace(at, from.size(), to);
  };
  EXPECT_ERROR(TextVocabulary::read(with("Isolated", "Removed"), "f.json"), unsupported, "f.json");
  EXPECT_ERROR(
      TextVocabulary::read(with("\"merges\": [", "\"merges\": [[\"a\", \"nowhere\"],"), "f.json"),
      corrupt, "f.json");
  EXPECT_ERROR(TextVocabulary::read(with("\"merges\": [", "\"merges\": [3,"), "f.json"), corrupt,
               "f.json");
  EXPECT_ERROR(TextVocabulary::read("{}", "f.json"), corrupt, "f.json");
}

}  // namespace
}  // namespace anyaccel::llm
