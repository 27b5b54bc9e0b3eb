// Tests that lines from several ranks do not interleave, an unfinished line does not block the
// other ranks, and no byte is lost, added or moved.
#include "launch/line_interleaver.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace anyaccel::launch {
namespace {

using Mode = LineInterleaver::Mode;
constexpr auto kSoon = LineInterleaver::kPatience / 2;

class LineInterleaverTest : public testing::Test {
 protected:
  LineInterleaver::Clock::time_point now_ = LineInterleaver::Clock::now();
};

// Fails if a line that is written in two parts interleaves with other lines. Python's unbuffered
// print() writes the text and the newline separately.
TEST_F(LineInterleaverTest, LinesInPiecesDoNotInterleave) {
  LineInterleaver turns(2, Mode::as_written);
  EXPECT_EQ(turns.add(0, "from rank 0", now_), "from rank 0");
  EXPECT_EQ(turns.add(1, "from rank 1", now_), "");
  EXPECT_EQ(turns.add(1, "\n", now_), "");
  EXPECT_EQ(turns.add(0, "\n", now_), "\nfrom rank 1\n");
  EXPECT_EQ(turns.add(1, "more\n", now_), "more\n");
  EXPECT_EQ(turns.milliseconds(now_), -1);
}

// Fails if a prompt or a token of streamed text is not shown immediately.
TEST_F(LineInterleaverTest, PartialLinesAreWrittenImmediately) {
  LineInterleaver turns(2, Mode::as_written);
  EXPECT_EQ(turns.add(1, "> ", now_), "> ");
  EXPECT_EQ(turns.add(1, "a", now_), "a");
  EXPECT_EQ(turns.add(1, "b\nc", now_), "b\nc");
}

// Fails if a progress bar, which does not end its line, blocks other ranks, or delays them longer
// than necessary.
TEST_F(LineInterleaverTest, NoWriterWaitsForever) {
  LineInterleaver turns(3, Mode::as_written);
  EXPECT_EQ(turns.add(0, "\r10%", now_), "\r10%");
  EXPECT_EQ(turns.add(1, "one\n", now_), "");
  EXPECT_EQ(turns.add(2, "two", now_ + kSoon), "");
  EXPECT_EQ(turns.milliseconds(now_), LineInterleaver::kPatience.count());
  EXPECT_EQ(turns.overdue(now_ + kSoon), "");
  EXPECT_EQ(turns.add(0, "\r20%", now_ + kSoon), "\r20%");
  EXPECT_EQ(turns.overdue(now_ + LineInterleaver::kPatience), "one\ntwo");
  // Rank 2 now has an unfinished line on the terminal, so the progress bar has to wait.
  EXPECT_EQ(turns.add(0, "\r30%", now_ + LineInterleaver::kPatience), "");
  EXPECT_EQ(turns.add(2, "\n", now_ + LineInterleaver::kPatience), "\n\r30%");
}

// Fails if a rank that exits in the middle of a line blocks the other ranks.
TEST_F(LineInterleaverTest, WriterEndsWithinALine) {
  LineInterleaver turns(2, Mode::as_written);
  EXPECT_EQ(turns.add(0, "a", now_), "a");
  EXPECT_EQ(turns.add(1, "b", now_), "");
  EXPECT_EQ(turns.end(1, now_), "");
  EXPECT_EQ(turns.end(0, now_), "b");
  EXPECT_EQ(turns.rest(now_), "");
}

// Fails if a line that never ends blocks other ranks, or makes the buffer for their output grow
// without limit.
TEST_F(LineInterleaverTest, EndlessLines) {
  LineInterleaver turns(2, Mode::as_written);
  const std::string piece(LineInterleaver::kLongest / 2, 'x');
  EXPECT_EQ(turns.add(0, piece, now_), piece);
  EXPECT_EQ(turns.add(1, piece, now_), "");
  EXPECT_FALSE(turns.is_full(1));
  EXPECT_EQ(turns.add(1, piece, now_), "");
  EXPECT_TRUE(turns.is_full(1));
  EXPECT_EQ(turns.add(0, piece + "y", now_).size(),
            2 * LineInterleaver::kLongest - piece.size() + 1);
  EXPECT_FALSE(turns.is_full(1));
}

// Fails if an agent passes a partial line to an MPI launcher although the rest of the line follows
// soon, or holds back a partial line forever.
TEST_F(LineInterleaverTest, WholeLinesForRunners) {
  LineInterleaver turns(2, Mode::whole_lines);
  EXPECT_EQ(turns.add(0, "one\ntw", now_), "one\n");
  EXPECT_EQ(turns.add(0, "o", now_), "");
  EXPECT_EQ(turns.add(0, "\n", now_), "two\n");
  EXPECT_EQ(turns.add(0, "prompt: ", now_), "");
  EXPECT_EQ(turns.add(0, "10%\r", now_), "prompt: 10%\r");
  EXPECT_EQ(turns.add(0, "prompt: ", now_), "");
  EXPECT_EQ(turns.overdue(now_ + LineInterleaver::kPatience), "prompt: ");
  EXPECT_EQ(turns.add(0, "end", now_), "");
  EXPECT_EQ(turns.end(0, now_), "end");
}

// Fails if a rank's line overwrites another rank's progress bar.
TEST_F(LineInterleaverTest, NewLineAfterAProgressBar) {
  LineInterleaver turns(2, Mode::line_ends);
  EXPECT_EQ(turns.add(0, "[rank 0] 10%\r", now_), "[rank 0] 10%\r");
  EXPECT_EQ(turns.add(0, "[rank 0] 20%\r", now_), "[rank 0] 20%\r");
  EXPECT_EQ(turns.add(1, "[rank 1] a\n", now_), "\n[rank 1] a\n");
  EXPECT_EQ(turns.add(0, "[rank 0] 30%\r", now_), "[rank 0] 30%\r");
}

TEST_F(LineInterleaverTest, NothingIsLostOrMoved) {
  for (const auto mode : {Mode::as_written, Mode::whole_lines})
    for (unsigned seed = 0; seed < 200; ++seed) {
      std::mt19937 random(seed);
      LineInterleaver turns(4, mode);
      std::map<char, std::string> wrote, came;
      std::string all;
      for (int i = 0; i < 200; ++i) {
        const std::size_t writer = random() % 4;
        std::string text;
        for (auto left = random() % 6; left > 0; --left)
          text += static_cast<char>((random() % 8 == 0 ? 0 : 64 + random() % 60) + 0);
        // The two highest bits of a byte identify its writer. Only writer 0 writes newlines.
        for (auto& c : text) c = static_cast<char>((c & 63) | static_cast<int>(writer << 6));
        if (writer == 0 && random() % 2 == 0) text += '\n';
        wrote[static_cast<char>(writer)] += text;
        now_ += std::chrono::milliseconds(random() % 100);
        all += turns.add(writer, text, now_);
        all += turns.overdue(now_);
      }
      for (std::size_t writer = 0; writer < 4; ++writer) all += turns.end(writer, now_);
      all += turns.rest(now_);
      for (const char c : all) came[static_cast<char>(static_cast<unsigned char>(c) >> 6)] += c;
      EXPECT_EQ(came, wrote) << seed;
    }
}

}  // namespace
}  // namespace anyaccel::launch
