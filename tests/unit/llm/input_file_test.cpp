#include "llm/data/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "anyaccel/error.h"
#include "unit/llm/temporary_folder.h"

namespace anyaccel::llm {
namespace {

struct Read {
  std::size_t number;
  std::string text;
  bool too_long;
  bool operator==(const Read&) const = default;
};

std::vector<Read> lines(const std::filesystem::path& path, std::size_t max_line) {
  InputFile file(path, max_line);
  std::vector<Read> out;
  while (const auto line = file.next_line())
    out.push_back({line->number, std::string(line->text), line->too_long});
  return out;
}

// Fails if a line break is part of a line, if an empty line is lost, or if the last line needs a
// line break.
TEST(InputFile, Lines) {
  const TemporaryFolder folder;
  const auto path = folder.write("a", "one\r\n\ntwo\nthree");
  const std::vector<Read> want = {
      {1, "one", false}, {2, "", false}, {3, "two", false}, {4, "three", false}};
  EXPECT_EQ(lines(path, 100), want);
  EXPECT_EQ(lines(folder.write("b", "x\n"), 100), (std::vector<Read>{{1, "x", false}}));
  EXPECT_TRUE(lines(folder.write("c", ""), 100).empty());
}

// Fails if a long line is kept in memory, changes the numbers of later lines, or hides them. The
// long lines are longer than the reader's buffer, end exactly at the limit, or end the file.
TEST(InputFile, LongLines) {
  const TemporaryFolder folder;
  const std::string huge(1 << 20, 'h');
  const auto got = lines(folder.write("a", huge + "\n12345\n123456\nend\n" + huge), 5);
  ASSERT_EQ(got.size(), 5U);
  EXPECT_TRUE(got[0].too_long && got[2].too_long && got[4].too_long);
  EXPECT_LE(got[0].text.size(), 256U);
  EXPECT_EQ(got[1], (Read{2, "12345", false}));
  EXPECT_EQ(got[2].text, "12345");
  EXPECT_EQ(got[3], (Read{4, "end", false}));
  EXPECT_EQ(got[4].number, 5U);
}

// Fails if blocks lose or repeat bytes, end in the middle of a line that fits, or in the middle of
// a character.
TEST(InputFile, Blocks) {
  const TemporaryFolder folder;
  const auto blocks = [&](const std::string& text, std::size_t bytes) {
    InputFile file(folder.write("a", text));
    std::vector<std::string> out;
    while (auto block = file.next_block(bytes)) out.push_back(std::move(*block));
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(blocks("ab\ncd\nefgh", 7), (Texts{"ab\ncd\n", "efgh"}));
  EXPECT_EQ(blocks("abcdefghij", 4), (Texts{"abcd", "efgh", "ij"}));
  EXPECT_EQ(blocks("abc\u20ac\u20ac", 5), (Texts{"abc", "\u20ac", "\u20ac"}));
  EXPECT_TRUE(blocks("", 4).empty());
  std::string joined;
  const std::string text = std::string(300, '\x80') + "\xc3";
  for (const std::string& block : blocks(text, 3)) joined += block;
  EXPECT_EQ(joined, text);
}

// Fails if peek() consumes what it returns, or if a pipe cannot be read.
TEST(InputFile, PeekAtPipe) {
  const TemporaryFolder folder;
  const auto path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << "a\nb\n"; });
  {
    InputFile file(path);
    EXPECT_EQ(file.peek(3), "a\nb");
    EXPECT_EQ(file.next_line()->text, "a");
    EXPECT_EQ(file.next_line()->text, "b");
    EXPECT_FALSE(file.next_line());
  }
  writer.join();
}

}  // namespace
}  // namespace anyaccel::llm
