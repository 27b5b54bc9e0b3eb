#include "base/untrusted_text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "test_paths.h"

namespace anyaccel {
namespace {

std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::string utf8(unsigned c) {
  const auto tail = [c](unsigned shift) { return static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | c >> 18), tail(12), tail(6), tail(0)};
}

// Fails if the output differs from the data file, which the Python test also reads.
TEST(UntrustedText, MatchesTheDataFile) {
  std::ifstream file(ANYACCEL_TEST_DATA "/untrusted_text.txt");
  std::set<unsigned> escaped;
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string kind;
    std::string limit;
    std::string input;
    std::string expected;
    words >> kind >> limit >> input;
    std::getline(words >> std::ws, expected);
    if (kind == "escaped") {
      for (auto c = std::stoul(limit, nullptr, 16); c <= std::stoul(input, nullptr, 16); ++c)
        escaped.insert(c);
      continue;
    }
    ++cases;
    const auto text = from_hex(input);
    EXPECT_EQ(kind == "quoted" ? quoted_text(text, std::stoul(limit))
                               : printable_text(text, std::stoul(limit)),
              expected)
        << line;
  }
  EXPECT_GT(cases, 20);
  for (unsigned c = 0; c < 0x110000; ++c) {
    if ((c >= 0xd800 && c < 0xe000) || c == '"' || c == '\\') continue;
    const auto text = utf8(c);
    ASSERT_EQ(quoted_text(text) != '"' + text + '"', escaped.contains(c)) << c;
    ASSERT_EQ(printable_text(text) != text, escaped.contains(c) && c != '\n' && c != '\t') << c;
  }
}

// Fails if a long text is printed in full, or the end of a message is lost.
TEST(UntrustedText, TruncatesLongTexts) {
  const std::string text(300000, 'x');
  EXPECT_EQ(quoted_text(text), '"' + std::string(200, 'x') + "...\" (300000 bytes)");
  const auto message = printable_text("start\n" + text + "; do this");
  EXPECT_LT(message.size(), 8100U);
  EXPECT_TRUE(message.starts_with("start\nxxx"));
  EXPECT_TRUE(message.ends_with("xxx; do this"));
}

// Fails if control characters reach a terminal, or format characters that some writing systems need
// are escaped.
TEST(UntrustedText, KeepsScriptsOnATerminal) {
  EXPECT_EQ(terminal_text("a\n\t\r\x1b]0;x\x07\xc2\x9b\x9b\x7f"),
            "a\n\t\r\\x1b]0;x\\x07\\u009b\\x9b\\x7f");
  const std::string scripts = "\u0645\u06cc\u200c\u0634 \u2764\ufe0f \u202b \xff\xe2";
  EXPECT_EQ(terminal_text(scripts), scripts);
}

// Fails if a huge shape is printed in full.
TEST(UntrustedText, ShortensLists) {
  EXPECT_EQ(shortened_list({}), "[]");
  EXPECT_EQ(shortened_list(std::vector<std::int64_t>{2, -3}), "[2, -3]");
  EXPECT_EQ(shortened_list(std::vector<std::int64_t>(100000, 1), 2),
            "[1, 1, ... (100000 numbers)]");
}

}  // namespace
}  // namespace anyaccel
