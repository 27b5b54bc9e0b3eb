#include "launch/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "anyaccel/error.h"

namespace anyaccel::launch {
namespace {

using testing::HasSubstr;

constexpr std::chrono::system_clock::time_point kNow{std::chrono::seconds(1700000000)};

// Fails if a line is output before it is complete, or part of it is lost.
TEST(LinePrefix, WholeLinesOnly) {
  LinePrefix prefix("[rank 1] ");
  EXPECT_EQ(prefix.add("a"), "");
  EXPECT_EQ(prefix.add("b\n\nc"), "[rank 1] ab\n[rank 1] \n");
  EXPECT_EQ(prefix.rest(), "[rank 1] c\n");
  EXPECT_EQ(prefix.rest(), "");
}

// Fails if a progress bar is held back until its line ends, or CRLF counts as two line endings.
TEST(LinePrefix, CarriageReturnsArePassedOn) {
  LinePrefix prefix("> ");
  EXPECT_EQ(prefix.add("10%\r20%\r"), "> 10%\r> 20%\r");
  EXPECT_EQ(prefix.add("x\r\ny\n"), "> x\r\n> y\n");
}

// Fails if output without line endings is buffered without limit.
TEST(LinePrefix, EndlessLinesAreSplit) {
  LinePrefix prefix("> ");
  std::size_t count = 0;
  for (int i = 0; i < 64; ++i) {
    const auto out = prefix.add(std::string(1 << 16, 'x'));
    count += static_cast<std::size_t>(std::count(out.begin(), out.end(), 'x'));
  }
  const auto rest = prefix.rest();
  count += static_cast<std::size_t>(std::count(rest.begin(), rest.end(), 'x'));
  EXPECT_EQ(count, 64U << 16);
  EXPECT_LT(rest.size(), std::size_t{2} << 20);
}

class LaunchLogs : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "launch_logs_" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

// Fails if files are not named as in DeepSpeed, or a second job that starts in the same second
// writes to the files of the first.
TEST_F(LaunchLogs, NamedByTimeAndRank) {
  const auto files = make_log_files(folder_ + "/a/b", {0, 12}, kNow);
  EXPECT_THAT(std::filesystem::path(files[1]).filename().string(),
              testing::MatchesRegex("[0-9]{14}_rank12.log"));
  std::filesystem::remove(files[0]);
  const auto second = make_log_files(folder_ + "/a/b", {0, 12}, kNow);
  EXPECT_THAT(second[0], HasSubstr("-2_rank0.log"));
  EXPECT_THAT(second[1], HasSubstr("-2_rank12.log"));
  EXPECT_FALSE(std::filesystem::exists(files[0]));
}

// Fails if a log folder that cannot be created is detected only after ranks have started.
TEST_F(LaunchLogs, FolderIsAFile) {
  std::ofstream(folder_.c_str()) << "x";
  try {
    make_log_files(folder_, {0}, kNow);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr(folder_));
  }
}

// Fails if a rank's standard output and standard error are reordered in its log file, or its last
// lines are not available for the summary.
TEST_F(LaunchLogs, BothOutputsInOrder) {
  Outputs outputs({3}, {.prefix = false, .log_folder = folder_});
  const auto both = outputs.descriptors()[0];
  EXPECT_EQ(both.output, both.error);
  std::string all;
  for (int i = 0; i < 12; ++i) all += "line " + std::to_string(i) + "\n";
  ASSERT_EQ(::write(both.output, all.data(), all.size()), static_cast<ssize_t>(all.size()));
  outputs.started();
  outputs.finish();
  EXPECT_FALSE(outputs.failed());
  std::ifstream file(outputs.log_files()[0]);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), all);
  const auto last = outputs.last_lines(0);
  EXPECT_EQ(last.size(), 10U);
  EXPECT_EQ(last.back(), "line 11");
}

// Fails if a report from the launcher on another host is printed, is missed because it arrives in
// several chunks, or is replaced by a later one.
TEST(LaunchReports, AreRemovedFromOutput) {
  EXPECT_FALSE(parse_report("anything"));
  Outputs outputs({0}, {.reports = true});
  const int to = outputs.descriptors()[0].error;
  const std::string all =
      "one\n" + format_report({4, 256}) + "anyaccel: launch\n" + format_report({5, 512}) + "rest";
  testing::internal::CaptureStderr();
  for (const char c : all) {
    ASSERT_EQ(::write(to, &c, 1), 1);
    outputs.wait(-1);
  }
  outputs.started();
  outputs.finish();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\nanyaccel: launch\nrest");
  ASSERT_TRUE(outputs.report());
  EXPECT_EQ(outputs.report()->rank, 4);
  EXPECT_EQ(outputs.report()->status, 256);
}

// Fails if a report of lost output on another host counts as the failure of a rank, or is ignored.
TEST(LaunchReports, LostOutput) {
  Outputs outputs({0}, {.reports = true});
  const auto line = format_report({-1, 1});
  ASSERT_EQ(::write(outputs.descriptors()[0].error, line.data(), line.size()),
            static_cast<ssize_t>(line.size()));
  outputs.started();
  outputs.finish();
  EXPECT_FALSE(outputs.report());
  EXPECT_TRUE(outputs.failed());
}

// Fails if lines from several hosts interleave because they arrive in several chunks.
TEST(LaunchLines, DoNotInterleave) {
  testing::internal::CaptureStdout();
  Outputs outputs({0, 1}, {.pipes = true, .lines = true});
  const auto say = [&](std::size_t rank, std::string_view text) {
    ASSERT_EQ(::write(outputs.descriptors()[rank].output, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
    outputs.wait(-1);
  };
  say(0, "[rank 0] o");
  say(1, "[rank 1] one\n[ra");
  say(0, "ne\n");
  say(1, "nk 1] two\n");
  outputs.started();
  outputs.finish();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[rank 1] one\n[rank 0] one\n[rank 1] two\n");
}

}  // namespace
}  // namespace anyaccel::launch
