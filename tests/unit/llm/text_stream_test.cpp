#include "llm/generate/text_stream.h"

#include <gtest/gtest.h>

namespace anyaccel::llm {
namespace {

// Fails if the bytes of a character are emitted separately, or a complete character is held back.
TEST(TextStream, WholeCharacters) {
  std::vector<std::string> pieces;
  TextStream stream({}, [&](std::string_view piece) { pieces.emplace_back(piece); });
  for (const char c : std::string("aü€😀")) stream.push(std::string(1, c));
  EXPECT_EQ(pieces, (std::vector<std::string>{"a", "ü", "€", "😀"}));
  stream.push("\xe2\x82");
  EXPECT_EQ(pieces.size(), 4U);
  stream.finish();
  EXPECT_EQ(pieces.back(), "\xef\xbf\xbd\xef\xbf\xbd");
}

// Fails if invalid UTF-8 is output, or prevents further output.
TEST(TextStream, InvalidBytes) {
  EXPECT_EQ(valid_utf8("a\xff\xc0\x80"
                       "b"),
            "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
            "b");
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(complete_utf8("a\xff"), 2U);
  EXPECT_EQ(complete_utf8("a\xf0\x9f\x98"), 1U);
  EXPECT_EQ(complete_utf8("\xf0\x9f"), 0U);
}

// Fails if part of a stop string that arrives in several chunks is printed, or the text before it
// is lost.
TEST(TextStream, StopAcrossPieces) {
  std::string out;
  TextStream stream({"END", "NDX"}, [&](std::string_view piece) { out += piece; });
  EXPECT_FALSE(stream.push("one E"));
  EXPECT_EQ(out, "one ");
  EXPECT_FALSE(stream.push("Ntwo E"));
  EXPECT_EQ(out, "one ENtwo ");
  EXPECT_FALSE(stream.push("N"));
  EXPECT_TRUE(stream.push("D rest"));
  EXPECT_EQ(out, "one ENtwo ");
  EXPECT_EQ(stream.text(), out);
}

// Fails if text that could have been the beginning of a stop string is lost at the end.
TEST(TextStream, FinishEmitsHeldText) {
  std::string out;
  TextStream stream({"END"}, [&](std::string_view piece) { out += piece; });
  stream.push("xEN");
  stream.finish();
  EXPECT_EQ(out, "xEN");
}

}  // namespace
}  // namespace anyaccel::llm
