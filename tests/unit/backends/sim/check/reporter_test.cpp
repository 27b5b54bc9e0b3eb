// Tests problem reports as text and JSON.
#include "backends/sim/check/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "unit/llm/temporary_folder.h"

namespace anyaccel::backends::sim::checking {
namespace {

using testing::HasSubstr;

Problem example() {
  return {
      .kind = Kind::unordered_streams,
      .what = "one \"reads\"\twhat another writes",
      .now = {.op = "aten::mm",
              .stream = "stream 1 of sim:0",
              .shape = "float32 [2, 3]",
              .stack = {"#0 main"}},
      .before = {.op = "aten::copy_", .stream = "stream 2 of sim:0", .shape = "float32 [2, 3]"}};
}

nlohmann::json read(const std::filesystem::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

// Fails if the text of a report lacks any part of a problem.
TEST(SimCheckReport, TextIsComplete) {
  const auto all = text(example());
  for (const char* part :
       {"unordered_streams", "aten::mm, stream 1 of sim:0, float32 [2, 3]", "aten::copy_, stream 2",
        "#0 main", "wait_stream", "what another writes"})
    EXPECT_THAT(all, HasSubstr(part));
}

// Fails if a report from a process that has a rank lacks the rank, or a report from another process
// has one.
TEST(SimCheckReport, NamesTheRank) {
  EXPECT_THAT(text(example(), "3"), HasSubstr("sim check: rank 3: unordered use"));
  EXPECT_THAT(text(example()), HasSubstr("sim check: unordered use"));
  EXPECT_EQ(nlohmann::json::parse(json({example()}, {}, "3"))["rank"], 3);
  EXPECT_FALSE(nlohmann::json::parse(json({example()}, {})).contains("rank"));
}

// Fails if two kinds of problems share a name, or one lacks a description.
TEST(SimCheckReport, KindsHaveUniqueNames) {
  std::set<std::string> names;
  for (const auto kind : all_kinds()) {
    names.insert(name(kind));
    EXPECT_GT(std::string(title(kind)).size(), 10U);
    EXPECT_GT(std::string(remedy(kind)).size(), 10U);
  }
  EXPECT_EQ(names.size(), all_kinds().size());
}

// Fails if the file is not updated with each report, or lists a problem twice.
TEST(SimCheckReport, FileHasEachProblemOnce) {
  const llm::TemporaryFolder folder;
  const auto file = folder.path() / "problems.json";
  Reporter reporter(false, file.string());
  testing::internal::CaptureStderr();
  reporter.report(example());
  EXPECT_EQ(read(file)["problems"][0]["shape"], "float32 [2, 3]");
  reporter.report(example());
  auto other = example();
  other.place = 1;
  reporter.report(other);
  EXPECT_TRUE(reporter.count(other));
  reporter.finish();
  const auto printed = testing::internal::GetCapturedStderr();
  const auto problems = read(file)["problems"];
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0]["seen"], 2);
  EXPECT_EQ(problems[0]["what"], example().what);
  EXPECT_EQ(problems[0]["before"]["op"], "aten::copy_");
  EXPECT_THAT(printed, HasSubstr("2 problems, seen 4 times"));
  EXPECT_EQ(reporter.problems().size(), 2U);
}

// Fails if a rejected call is counted as a handled error, or hides the error that terminated the
// program.
TEST(SimCheckReport, RejectedCallsAreOnlyListed) {
  const llm::TemporaryFolder folder;
  const auto file = folder.path() / "problems.json";
  Reporter reporter(/*aborts=*/false, file.string());
  auto rejected = example();
  rejected.kind = Kind::rejected;
  testing::internal::CaptureStderr();
  reporter.note(rejected);
  reporter.report_last_note();
  reporter.finish();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(read(file)["notes"][0]["kind"], "rejected");
  testing::internal::CaptureStderr();
  reporter.note(example());
  reporter.note(rejected);
  reporter.report_last_note();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("unordered_streams"));
  EXPECT_EQ(read(file)["notes"].size(), 1U);
}

// Fails if a handled error is treated as a problem, or is missing from the file.
TEST(SimCheckReport, NotesAreKeptAndNeverAbort) {
  const llm::TemporaryFolder folder;
  const auto file = folder.path() / "problems.json";
  Reporter reporter(/*aborts=*/true, file.string());
  testing::internal::CaptureStderr();
  reporter.note(example());
  EXPECT_TRUE(reporter.count_note(example()));
  EXPECT_FALSE(reporter.count(example()));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(reporter.problems().empty());
  EXPECT_EQ(read(file)["notes"].size(), 1U);
  testing::internal::CaptureStderr();
  reporter.finish();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("note: the program handled 2 errors"));
  EXPECT_EQ(read(file)["notes"][0]["seen"], 2);
  EXPECT_TRUE(read(file)["problems"].empty());
}

// Fails if a notice is not printed, ends the program, counts as the error that ended it, or cannot
// be suppressed.
TEST(SimCheckReport, NoticesArePrinted) {
  auto notice = example();
  notice.kind = Kind::unseeded_device;
  for (const char* known : {"", "unseeded_device:*"}) {
    const llm::TemporaryFolder folder;
    const auto file = folder.path() / "problems.json";
    Reporter reporter(/*aborts=*/true, file.string(), Suppressions::parse(known, "known.txt"));
    testing::internal::CaptureStderr();
    reporter.notice(notice);
    reporter.report_last_note();
    reporter.finish();
    const auto printed = testing::internal::GetCapturedStderr();
    const bool suppressed = *known != 0;
    EXPECT_EQ(printed.find("sim check: note: only the host's") == printed.npos, suppressed);
    EXPECT_EQ(printed.find("handled"), printed.npos);
    EXPECT_EQ(read(file)["notes"].size(), suppressed ? 0U : 1U);
    EXPECT_TRUE(read(file)["problems"].empty());
  }
}

// Fails if the error that terminated the program stays a note, or a different error is reported
// instead.
TEST(SimCheckReport, LastNoteBecomesAProblem) {
  const llm::TemporaryFolder folder;
  const auto file = folder.path() / "problems.json";
  Reporter reporter(/*aborts=*/false, file.string());
  auto first = example(), second = example();
  second.place = 1;
  second.what = "the last";
  reporter.note(first);
  reporter.note(second);
  testing::internal::CaptureStderr();
  reporter.report_last_note();
  reporter.report_last_note();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the last"));
  ASSERT_EQ(read(file)["problems"].size(), 1U);
  EXPECT_EQ(read(file)["problems"][0]["what"], "the last");
  EXPECT_EQ(read(file)["notes"].size(), 1U);
}

// Fails if a correct program does not write a file, or prints a report.
TEST(SimCheckReport, CorrectProgramWritesAnEmptyReport) {
  const llm::TemporaryFolder folder;
  Reporter reporter(false, (folder.path() / "%p.json").string());
  testing::internal::CaptureStderr();
  reporter.finish();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(read(folder.path() / (std::to_string(::getpid()) + ".json"))["problems"].empty());
}

// Fails if a program continues after a problem in abort mode, or the report file is not written
// first.
TEST(SimCheckReport, AbortEndsTheProgramAfterTheReport) {
  const llm::TemporaryFolder folder;
  const auto file = folder.path() / "%p.json";
  EXPECT_EXIT(Reporter(true, file.string()).report(example()), testing::KilledBySignal(SIGABRT),
              "unordered_streams");
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
}

// Fails if a forked child writes its parent's report file.
TEST(SimCheckReport, ForkedChildDoesNotWriteTheFile) {
  const llm::TemporaryFolder folder;
  const auto file = folder.path() / "problems.json";
  Reporter reporter(false, file.string());
  EXPECT_EXIT(
      {
        reporter.report(example());
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "aten::mm");
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
