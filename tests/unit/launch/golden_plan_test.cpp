// Compares plans for saved topologies (tests/data/topologies) with tests/data/plans/<machine>.txt.
// To update these files, run with ANYACCEL_WRITE_PLANS=1 and review the diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "base/file.h"
#include "launch/plan.h"
#include "test_paths.h"
#include "unit/support/saved_machine.h"

namespace anyaccel::launch {
namespace {

namespace fs = std::filesystem;

std::string list(const std::vector<int>& numbers) {
  return numbers.empty() ? "none" : topology::format_cpu_list(numbers);
}

std::string text_of(const topology::Machine& machine, const std::string& title,
                    const PlanOptions& options) {
  std::string text = "== " + title + "\n";
  try {
    const auto plan = plan_host(machine, options);
    for (const auto& rank : plan.ranks) {
      text += "rank " + std::to_string(rank.local_rank) + ": cores " + list(rank.cores) +
              ", memory " + to_string(rank.policy) + " " + list(rank.memory_nodes) + ", threads " +
              std::to_string(rank.threads);
      if (!rank.reserved.empty()) text += ", reserved " + list(rank.reserved);
      text += '\n';
    }
    if (!plan.reserved.empty()) text += "reserved " + list(plan.reserved) + '\n';
    for (const auto& note : plan.notes) text += note + '\n';
    for (const auto& warning : plan.warnings) text += "warning: " + warning + '\n';
  } catch (const Error& error) {
    text += error.what() + std::string("\n");
  }
  return text;
}

std::string plans_of(const topology::Machine& machine) {
  std::string text = text_of(machine, "default", {});
  for (const int ranks : {1, 2, 3, 5})
    text += text_of(machine, std::to_string(ranks) + " ranks", {.ranks = ranks});
  text += text_of(machine, "2 ranks, 2 reserved", {.ranks = 2, .reserve_cores = 2});
  text += text_of(machine, "3 ranks on all CPUs", {.ranks = 3, .core_list = machine.cpus()});
  const int shared = static_cast<int>(machine.cores.size()) + 1;
  if (shared <= 9)
    text +=
        text_of(machine, "one rank too many, sharing", {.ranks = shared, .oversubscribe = true});
  return text;
}

using GoldenPlan = test::SavedMachineTest;

// Fails if the cores, memory or threads of a rank change for any saved topology.
// tests/data/topologies describes the machines.
TEST_F(GoldenPlan, EverySavedMachine) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(ANYACCEL_TEST_DATA) / "topologies"))
    if (entry.path().extension() == ".xml") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  EXPECT_GE(names.size(), 20u);
  for (const auto& name : names) {
    const auto golden = fs::path(ANYACCEL_TEST_DATA) / "plans" / (name + ".txt");
    const auto text = plans_of(saved(name));
    if (std::getenv("ANYACCEL_WRITE_PLANS") != nullptr) std::ofstream(golden) << text;
    EXPECT_EQ(text, try_read_file(golden).value_or("")) << golden;
  }
}

}  // namespace
}  // namespace anyaccel::launch
