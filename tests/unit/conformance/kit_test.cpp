// Tests of the conformance kit itself: outcomes of cases, skip lists, reports and options.
#include "anyaccel/conformance/kit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "unit/support/expect_error.h"

namespace anyaccel::conformance {
namespace {

using testing::HasSubstr;

ANYACCEL_CONFORMANCE_CASE(trial, passes, required) {}
ANYACCEL_CONFORMANCE_CASE(trial, fails, required) { expect_equal(1 + 1, 3, "a \"sum\" <&>"); }
ANYACCEL_CONFORMANCE_CASE(trial, throws, recommended) {
  throw std::runtime_error("thrown on purpose");
}
ANYACCEL_CONFORMANCE_CASE(trial, crashes, required) { ::abort(); }
ANYACCEL_CONFORMANCE_CASE(trial, exits, required) { ::_exit(3); }
ANYACCEL_CONFORMANCE_CASE(trial, hangs, required) {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}
ANYACCEL_CONFORMANCE_CASE(trial, does_not_apply, required) { skip("for a reason"); }
ANYACCEL_CONFORMANCE_CASE(trial, refused_when_optional, optional) {
  throw Error(ErrorCode::unsupported, "trial", {.what = "not here"});
}
ANYACCEL_CONFORMANCE_CASE(trial, refused_when_required, required) {
  throw Error(ErrorCode::unsupported, "trial", {.what = "not here"});
}
ANYACCEL_CONFORMANCE_CASE(trial, talks, required) { std::puts("noise on standard output"); }

int process_of_last_case = 0;
ANYACCEL_CONFORMANCE_CASE(lone, remembers, required) { process_of_last_case = ::getpid(); }
ANYACCEL_CONFORMANCE_CASE(lone, alone, required, true) {
  expect_equal(process_of_last_case, 0, "the process that another case ran in");
}

ANYACCEL_CONFORMANCE_CASE(pair, meets, required, false, 2) {
  std::ofstream(meeting_file(), std::ios::app) << process_number();
  for (std::string met; met.size() < 2;) std::ifstream(meeting_file()) >> met;
}
ANYACCEL_CONFORMANCE_CASE(pair, second_fails, required, false, 2) {
  if (process_number() == 1) fail("only here");
}
ANYACCEL_CONFORMANCE_CASE(pair, second_crashes, required, false, 2) {
  if (process_number() == 1) ::abort();
}

Report run_trial(const std::string& cases, const std::string& list = {}) {
  Options options;
  options.backend = "cpu";
  options.suites = {"trial"};
  options.cases = cases;
  options.timeout = 2;
  if (!list.empty()) {
    options.skip_lists = {testing::TempDir() + "skips_" + std::to_string(::getpid()) + ".txt"};
    std::ofstream(options.skip_lists[0]) << list;
  }
  return run(options);
}

Result run_one(const std::string& name, const std::string& list = {}) {
  const auto report = run_trial("trial." + name, list);
  EXPECT_EQ(report.results.size(), 1U);
  return report.results.at(0);
}

// Fails if different kinds of failure are confused, or a failing case aborts the run.
TEST(Kit, EveryCaseHasOneResult) {
  const auto report = run_trial("*");
  std::map<std::string, Result> results;
  for (const auto& result : report.results) results[result.name] = result;
  EXPECT_EQ(report.results.size(), 10U);
  EXPECT_EQ(results["passes"].outcome, Outcome::passed);
  EXPECT_EQ(results["fails"].outcome, Outcome::failed);
  EXPECT_EQ(results["fails"].message, "a \"sum\" <&>; got 2, want 3");
  EXPECT_THAT(results["throws"].message, HasSubstr("thrown on purpose"));
  EXPECT_THAT(results["crashes"].message, HasSubstr("signal 6"));
  EXPECT_THAT(results["exits"].message, HasSubstr("exit code 3"));
  EXPECT_THAT(results["hangs"].message, HasSubstr("timed out after 2 s"));
  EXPECT_EQ(results["does_not_apply"].outcome, Outcome::skipped);
  EXPECT_EQ(results["refused_when_optional"].outcome, Outcome::skipped);
  EXPECT_EQ(results["refused_when_required"].outcome, Outcome::failed);
  EXPECT_EQ(results["talks"].outcome, Outcome::passed);
  EXPECT_FALSE(report.conforms());
  // Results are in registration order, regardless of which process ran the case.
  EXPECT_EQ(report.results.front().name, "passes");
  EXPECT_EQ(report.results.back().name, "talks");
}

// Fails if a case that requires a separate process shares one with another case.
TEST(Kit, CaseGetsItsOwnProcess) {
  Options options;
  options.backend = "cpu";
  options.suites = {"lone"};
  EXPECT_TRUE(run(options).conforms());
}

// Fails if the processes of a case do not run concurrently, or a failure in one of them is lost.
TEST(Kit, CaseOfTwoProcessesHasOneResult) {
  Options options;
  options.backend = "cpu";
  options.suites = {"pair"};
  options.timeout = 20;
  const auto report = run(options);
  ASSERT_EQ(report.results.size(), 3U);
  EXPECT_EQ(report.results[0].outcome, Outcome::passed) << report.results[0].message;
  EXPECT_EQ(report.results[1].outcome, Outcome::failed);
  EXPECT_EQ(report.results[1].message, "process 1: only here");
  EXPECT_EQ(report.results[2].message, "process 1: exited without a result");
}

// Fails if a run with only skipped cases counts as conforming, or a failed recommended case
// prevents conformance.
TEST(Kit, RequiredCasesDecideConformance) {
  EXPECT_TRUE(run_trial("trial.passes").conforms());
  EXPECT_FALSE(run_trial("trial.does_not_apply").conforms());
  auto report = run_trial("trial.passes");
  report.results.push_back({"trial", "x", Grade::recommended, Outcome::failed, "", 0});
  EXPECT_TRUE(report.conforms());
  report.results.push_back({"trial", "y", Grade::required, Outcome::expected_failure, "", 0});
  EXPECT_TRUE(report.conforms());
  report.results.push_back({"trial", "z", Grade::optional, Outcome::unexpected_pass, "", 0});
  EXPECT_FALSE(report.conforms());
}

// Fails if a case listed as unsupported runs, or an expected failure that passes is not reported.
TEST(Kit, SkipListsAreApplied) {
  auto result = run_one("crashes", "unsupported trial.cra* has no such thing\n");
  EXPECT_EQ(result.outcome, Outcome::skipped);
  EXPECT_EQ(result.message, "has no such thing");
  result = run_one("fails", "# a comment\n\nexpected-failure trial.fails known, see #12\n");
  EXPECT_EQ(result.outcome, Outcome::expected_failure);
  EXPECT_THAT(result.message, HasSubstr("known, see #12"));
  EXPECT_EQ(run_one("passes", "expected-failure trial.* no longer\n").outcome,
            Outcome::unexpected_pass);
  // The last matching line applies.
  EXPECT_EQ(run_one("passes", "unsupported trial.* x\nexpected-failure trial.passes y\n").outcome,
            Outcome::unexpected_pass);
}

// Fails if a malformed line or an entry without a reason is accepted.
TEST(Kit, SkipListsNeedReasons) {
  const auto read = [](const std::string& text) {
    std::istringstream in(text);
    return read_skip_list(in, "list");
  };
  EXPECT_EQ(read("unsupported a.b why\n").size(), 1U);
  EXPECT_ERROR(read("unsupported a.b why\nunsupported a.c\n"), invalid_argument, "line 2");
  EXPECT_ERROR(read("skip a.b why"), invalid_argument, "expected-failure");
  Options options;
  options.backend = "cpu";
  options.cases = "trial.passes";
  options.skip_lists = {"/no/such/list"};
  EXPECT_ERROR(run(options), not_found, "/no/such/list");
}

// Fails if an unknown accelerator or an empty selection is not an error.
TEST(Kit, InvalidSelectionIsAnError) {
  Options options;
  options.backend = "no such accelerator";
  EXPECT_ERROR(run(options), invalid_argument, "no such accelerator");
  options.backend = "cpu";
  options.suites = {"nosuch"};
  EXPECT_ERROR(run(options), invalid_argument, "identity");
  options.suites.clear();
  options.cases = "trial.nothing";
  EXPECT_ERROR(run(options), invalid_argument, "--list");
}

// Fails if special characters in texts make a report malformed.
TEST(Kit, ReportsAreWellFormed) {
  auto report = run_trial("trial.fails");
  report.results[0].message += "\n\t|\x01\xff";
  report.device = "a|b \xc3\xbc";
  std::ostringstream json, junit, page, text;
  write_json(json, report);
  const auto read = nlohmann::json::parse(json.str());
  EXPECT_EQ(read["backend"], "cpu");
  EXPECT_EQ(read["device"], "a|b \xc3\xbc");
  EXPECT_EQ(read["summary"]["required"]["failed"], 1);
  EXPECT_EQ(read["summary"]["conforms"], false);
  EXPECT_EQ(read["cases"][0]["name"], "fails");
  EXPECT_EQ(read["cases"][0]["suite"], "trial");
  EXPECT_EQ(read["cases"][0]["grade"], "required");
  EXPECT_EQ(read["cases"][0]["outcome"], "failed");
  write_junit(junit, report);
  EXPECT_THAT(junit.str(),
              HasSubstr("message=\"a &quot;sum&quot; &lt;&amp;&gt;; got 2, want 3&#10;?|??\""));
  EXPECT_THAT(junit.str(), HasSubstr("tests=\"1\" failures=\"1\" skipped=\"0\""));
  write_markdown(page, report);
  EXPECT_THAT(page.str(), HasSubstr("| device | a\\|b \xc3\xbc; "));
  EXPECT_THAT(page.str(), HasSubstr("| trial | 0 of 1 |  |  | 0 |"));
  write_text(text, report);
  EXPECT_THAT(text.str(), HasSubstr("FAILED  trial.fails (required)"));
  EXPECT_THAT(text.str(), HasSubstr("does not conform"));
}

// Fails if the list of next steps has the wrong order, omits a failure, or appears without one.
TEST(Kit, NextStepsFollowABringUp) {
  Report report;
  const auto add = [&](const char* suite, const char* name, Grade grade, Outcome outcome) {
    report.results.push_back({.suite = suite, .name = name, .grade = grade, .outcome = outcome});
  };
  const auto text = [&] {
    std::ostringstream out;
    write_text(out, report);
    return out.str();
  };
  add("devices", "good", Grade::required, Outcome::passed);
  add("graphs", "known", Grade::required, Outcome::expected_failure);
  EXPECT_THAT(text(), testing::Not(HasSubstr("next:")));
  add("vendor", "own", Grade::required, Outcome::failed);
  add("ops", "mm", Grade::required, Outcome::failed);
  add("identity", "late", Grade::recommended, Outcome::failed);
  add("memory", "peak", Grade::required, Outcome::failed);
  add("memory", "cache", Grade::optional, Outcome::failed);
  EXPECT_THAT(text(),
              HasSubstr("  1. memory, 2 failed (1 required): the allocator and its statistics\n"
                        "     memory.peak, memory.cache\n"
                        "  2. ops, 1 failed (1 required): the op's kernel, or the fallback that "
                        "runs it on the host\n     ops.mm\n"
                        "  3. vendor, 1 failed (1 required)\n     vendor.own\n"
                        "  4. identity, 1 failed (0 required): the traits file, or the "
                        "behavior that it declares\n"
                        "     identity.late\n"));
}

// Fails if each suite of the kit does not have a place in the order.
TEST(Kit, EverySuiteHasAStage) {
  std::set<std::string> suites;
  for (const auto& item : all_cases()) {
    if (item.suite == "trial" || item.suite == "lone" || item.suite == "pair") continue;
    Report report;
    report.results.push_back(
        {.suite = item.suite, .name = item.name, .grade = item.grade, .outcome = Outcome::failed});
    std::ostringstream out;
    write_text(out, report);
    EXPECT_THAT(out.str(), testing::ContainsRegex(item.suite + ", 1 failed \\([01] required\\): "));
    suites.insert(item.suite);
  }
  EXPECT_GE(suites.size(), 15U);
}

// Fails if a listed option is rejected, or an invalid option or value is accepted.
TEST(Kit, OptionsAreRead) {
  Options options;
  for (const auto& option : option_table())
    set_option(options, option.name, option.value == nullptr ? "" : "3");
  EXPECT_EQ(options.timeout, 3);
  EXPECT_TRUE(options.list && options.speed);
  EXPECT_ERROR(set_option(options, "timeout", "soon"), invalid_argument, "soon");
  const char* wrong[] = {"kit", "--no_such"};
  EXPECT_EQ(conformance_main(2, wrong), 2);
  const char* missing[] = {"kit", "--json"};
  EXPECT_EQ(conformance_main(2, missing), 2);
  const char* good[] = {"kit", "--backend=cpu", "--suite", "lone"};
  EXPECT_EQ(conformance_main(4, good), 0);
  const char* bad[] = {"kit", "--backend=cpu", "--case", "trial.fails"};
  EXPECT_EQ(conformance_main(4, bad), 1);
}

}  // namespace
}  // namespace anyaccel::conformance
