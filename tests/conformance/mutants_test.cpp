// Tests that each mutant in mutants.md fails the case listed for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "anyaccel/conformance/kit.h"
#include "anyaccel/registry.h"
#include "conformance/mutant.h"

namespace anyaccel {
namespace {

struct Row {
  std::string mutant, on, failing_case;
};

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<Row> rows_of_the_list() {
  std::ifstream in(ANYACCEL_TEST_SOURCE "/conformance/mutants.md");
  std::vector<Row> rows;
  for (std::string line; std::getline(in, line);) {
    std::istringstream cells(line);
    std::string empty, mutant, on, defect, failing_case;
    if (line.rfind("| ", 0) != 0 || line.rfind("| mutant |", 0) == 0 || line.rfind("| ---", 0) == 0)
      continue;
    for (auto* cell : {&empty, &mutant, &on, &defect, &failing_case})
      std::getline(cells, *cell, '|');
    rows.push_back({trimmed(mutant), trimmed(on), trimmed(failing_case)});
  }
  return rows;
}

bool has_backend(const std::string& name) {
  const auto names = registered_backends();
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Runs cases on a mutant. Workers are forked from this process, which never starts an accelerator.
conformance::Report judge(const std::string& mutant, const std::string& base,
                          const std::string& cases) {
  ::setenv("MUTANT", mutant.c_str(), 1);
  ::setenv("MUTANT_OF", base.c_str(), 1);
  // Without this variable, the simulated device can store every dtype.
  if (mutant == "claims_storage")
    ::setenv("SIM_DTYPES", "float32,int64,uint8", 1);
  else
    ::unsetenv("SIM_DTYPES");
  // On the simulated device, an allocation waits until memory in use is freed. SIM_FAULTS makes
  // allocations fail instead, starting near the first allocation of the case.
  if (mutant == "trait_backpressure_lies")
    ::setenv("SIM_FAULTS", "alloc@40+", 1);
  else
    ::unsetenv("SIM_FAULTS");
  conformance::Options options;
  options.backend = "mutant";
  options.cases = cases;
  options.timeout = 15;  // short, because a defect may make the device hang
  return conformance::run(options);
}

class Mutants : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("LOCAL_SIZE", "2", 1);  // two devices, so that a defect can confuse them
    static const bool registered = (test::register_mutant(), true);
    ASSERT_TRUE(registered);
  }

  static void expect_all_found(const std::string& on, const std::string& base) {
    for (const auto& row : rows_of_the_list()) {
      if (row.on != on) continue;
      SCOPED_TRACE(row.mutant + " must fail the case " + row.failing_case);
      try {
        const auto report = judge(row.mutant, base, row.failing_case);
        ASSERT_EQ(report.results.size(), 1U);
        EXPECT_EQ(report.results[0].outcome, conformance::Outcome::failed)
            << report.results[0].message;
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }

  static void expect_correct_one_passes(const std::string& base) {
    const auto report = judge("", base, "*");
    std::set<std::string> passed;
    for (const auto& result : report.results) {
      EXPECT_NE(result.outcome, conformance::Outcome::failed)
          << result.suite << "." << result.name << ": " << result.message;
      if (result.outcome == conformance::Outcome::passed)
        passed.insert(result.suite + "." + result.name);
    }
    for (const auto& row : rows_of_the_list()) {
      if (row.on != (base == "sim" ? "sim" : "any") || row.mutant == "trait_synchronized_lies")
        continue;
      // The correct backend must pass each case. Otherwise, the mutant's failure in the case would
      // prove nothing. The exceptions below are cases that apply only to a backend with the defect.
      const bool needs_defect =
          row.mutant == "trait_host_timers_lie" || row.mutant == "trait_asynchronous_lies" ||
          row.mutant == "capability_negative" || row.mutant == "trait_data_dependency_lies" ||
          row.mutant == "trait_backpressure_lies" || row.mutant == "trait_probe_disagrees" ||
          row.mutant == "trait_visible_devices_ignored" ||
          row.failing_case.rfind("pinned.", 0) == 0;
      EXPECT_TRUE(needs_defect || passed.count(row.failing_case) == 1)
          << row.failing_case << " did not pass";
    }
  }
};

// Fails if mutants.md and the implemented defects differ.
TEST_F(Mutants, ListIsComplete) {
  std::set<std::string> listed, known;
  for (const auto& row : rows_of_the_list()) {
    if (row.on == "python") continue;
    EXPECT_TRUE(listed.insert(row.mutant).second) << row.mutant;
  }
  for (const auto& defect : test::mutant_defects()) known.insert(defect);
  EXPECT_EQ(listed, known);
  EXPECT_GT(listed.size(), 90U);
}

// Fails if the correct backend fails any case on the CPU, or does not pass a case that should
// detect a defect.
TEST_F(Mutants, CorrectBackendPasses) { expect_correct_one_passes("cpu"); }

// Fails if a case no longer detects its defect.
TEST_F(Mutants, DefectsAreDetectedOnCpu) { expect_all_found("any", "cpu"); }

// Fails if a case no longer detects a defect that only an asynchronous device with its own memory
// can have.
TEST_F(Mutants, DefectsAreDetectedOnSim) {
  if (!has_backend("sim")) GTEST_SKIP() << "this build has no simulated device";
  expect_correct_one_passes("sim");
  expect_all_found("sim", "sim");
}

}  // namespace
}  // namespace anyaccel
