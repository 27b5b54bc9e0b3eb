// Tests that ranks get the same environment and command as with DeepSpeed's and torch's launchers.
#include "launch/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "anyaccel/error.h"

namespace anyaccel::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

Options options(std::vector<const char*> words) { return parse_options(words); }

topology::Machine two_nodes() {
  topology::Machine machine;
  for (int node = 0; node < 2; ++node) {
    machine.nodes.push_back({.os_index = node,
                             .memory = 1 << 30,
                             .cpus = {4 * node, 4 * node + 1, 4 * node + 2, 4 * node + 3},
                             .near_cpus = {}});
    for (int i = 0; i < 4; ++i)
      machine.cores.push_back({.package = node, .node = node, .cpus = {4 * node + i}});
    machine.nodes.back().near_cpus = machine.nodes.back().cpus;
  }
  return machine;
}

JobInput input(std::vector<Host> hosts, bool on_cores = true) {
  JobInput out;
  out.accelerator.traits.name = on_cores ? "host" : "card";
  out.accelerator.on_cores = on_cores;
  if (!on_cores) out.accelerator.traits.visible_devices_envs = {"CARDS", "OTHER_CARDS"};
  out.hosts = std::move(hosts);
  out.machine = two_nodes();
  out.python = "/usr/bin/python3";
  out.master_addr = "10.0.0.1";
  out.master_port = 1234;
  return out;
}

TEST(JobCommand, BinariesRunDirectly) {
  EXPECT_THAT(rank_command(options({"./a.out", "-x"}), "py", 3), ElementsAre("./a.out", "-x"));
  EXPECT_THAT(rank_command(options({"--no_python", "a.py", "-x"}), "py", 3),
              ElementsAre("a.py", "-x"));
}

TEST(JobCommand, LocalRankIsPythonsFirstArgument) {
  EXPECT_THAT(rank_command(options({"a.py", "-x", "1"}), "py", 3),
              ElementsAre("py", "-u", "a.py", "--local_rank=3", "-x", "1"));
  EXPECT_THAT(rank_command(options({"--module", "pack.age", "-x"}), "py", 0),
              ElementsAre("py", "-u", "-m", "pack.age", "--local_rank=0", "-x"));
  EXPECT_THAT(rank_command(options({"--no_local_rank", "a.py", "-x"}), "py", 0),
              ElementsAre("py", "-u", "a.py", "-x"));
}

TEST(JobCommand, MissingPythonIsReported) {
  try {
    rank_command(options({"a.py"}), "", 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
  }
  EXPECT_THAT(rank_command(options({"a.out"}), "", 0), ElementsAre("a.out"));
}

TEST(JobCommand, VirtualEnvironmentIsActivatedFirst) {
  const auto command = rank_command(options({"--venv_script", "/v/bin/activate", "a.py"}), "", 1);
  EXPECT_THAT(command, ElementsAre("/bin/bash", "-c", R"(. "$0" && exec "$@")", "/v/bin/activate",
                                   "python", "-u", "a.py", "--local_rank=1"));
}

TEST(Job, VariablesOfUnevenHosts) {
  auto in = input({{"a", {"0"}}, {"b", {"0", "1", "2"}}, {"c", {"0"}}});
  in.host = 1;
  const auto job = plan_job(options({"prog"}), in);
  ASSERT_EQ(job.ranks.size(), 3U);
  EXPECT_EQ(job.world_size, 5);
  const auto& rank = job.ranks[2];
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.host, "b");
  EXPECT_THAT(rank.environment,
              testing::IsSupersetOf({Pair("RANK", "3"), Pair("LOCAL_RANK", "2"),
                                     Pair("WORLD_SIZE", "5"), Pair("LOCAL_WORLD_SIZE", "3"),
                                     Pair("LOCAL_SIZE", "3"), Pair("CROSS_RANK", "1"),
                                     Pair("CROSS_SIZE", "3"), Pair("MASTER_ADDR", "10.0.0.1"),
                                     Pair("MASTER_PORT", "1234"), Pair("DS_ACCELERATOR", "host")}));
}

TEST(Job, SetsVisibleDevicesVariables) {
  const auto job = plan_job(options({"prog"}), input({{"a", {"GPU-2", "7"}}}, false));
  for (const auto& rank : job.ranks)
    EXPECT_THAT(rank.environment,
                testing::IsSupersetOf({Pair("CARDS", "GPU-2,7"), Pair("OTHER_CARDS", "GPU-2,7")}));
  EXPECT_EQ(job.ranks[1].device, "7");
  // If the accelerator computes on CPU cores, the launcher does not set any visible-devices
  // variable.
  const auto other = plan_job(options({"prog"}), input({{"a", {"0"}}}));
  for (const auto& [name, value] : other.ranks[0].environment)
    EXPECT_THAT(name, Not(HasSubstr("VISIBLE")));
}

TEST(Job, ThreadCountIsTheNumberOfCores) {
  const auto threads = [](const char* option, JobInput in) {
    std::string out;
    const auto job = plan_job(options({option, "prog"}), in);
    for (const auto& [name, value] : job.ranks[0].environment)
      if (name == "OMP_NUM_THREADS") out = value;
    return out;
  };
  auto in = input({{"a", {"0", "1"}}});
  EXPECT_EQ(threads("-q", in), "4");
  EXPECT_EQ(threads("--bind_cores_to_rank", in), "4");
  in.set_variables = {"OMP_NUM_THREADS"};
  EXPECT_EQ(threads("-q", in), "");                     // the user's value is kept
  EXPECT_EQ(threads("--bind_cores_to_rank", in), "4");  // replaced, as in DeepSpeed
  in.set_variables = {};
  in.file_variables = {{"OMP_NUM_THREADS", "3"}};
  EXPECT_EQ(threads("-q", in), "3");
}

TEST(Job, OpenMPBindingIsRemoved) {
  auto in = input({{"a", {"0"}}});
  in.set_variables = {"KMP_AFFINITY"};
  in.file_variables = {{"GOMP_CPU_AFFINITY", "0"}, {"OTHER", "1"}};
  EXPECT_TRUE(plan_job(options({"prog"}), in).unset.empty());
  const auto job = plan_job(options({"--bind_cores_to_rank", "prog"}), in);
  EXPECT_THAT(job.unset, ElementsAre("KMP_AFFINITY", "GOMP_CPU_AFFINITY"));
  EXPECT_THAT(job.notes, Contains(HasSubstr("KMP_AFFINITY")));
  EXPECT_THAT(job.ranks[0].environment, Contains(Pair("OTHER", "1")));
  EXPECT_THAT(job.ranks[0].environment, Not(Contains(Pair("GOMP_CPU_AFFINITY", "0"))));
}

TEST(Job, FilesCannotOverrideTheRank) {
  auto in = input({{"a", {"0"}}});
  in.file_variables = {{"RANK", "7"}, {"MINE", "x"}};
  const auto job = plan_job(options({"prog"}), in);
  EXPECT_THAT(job.ranks[0].environment,
              testing::IsSupersetOf({Pair("RANK", "0"), Pair("MINE", "x")}));
}

TEST(Job, BoundRanksHaveCores) {
  const auto job = plan_job(options({"--bind_cores_to_rank", "prog"}), input({{"a", {"0", "1"}}}));
  EXPECT_TRUE(job.ranks[0].bound);
  EXPECT_THAT(job.ranks[0].plan.cores, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(job.ranks[1].plan.cores, ElementsAre(4, 5, 6, 7));
  EXPECT_FALSE(plan_job(options({"prog"}), input({{"a", {"0"}}})).ranks[0].bound);
}

// Fails if more ranks than cores start without a warning, or too many ranks are not rejected.
TEST(Job, MoreRanksThanCores) {
  const auto in = input({{"a", numbered_slots(33)}});
  try {
    plan_job(options({"prog"}), in);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("--oversubscribe"));
  }
  EXPECT_EQ(plan_job(options({"--oversubscribe", "prog"}), in).ranks.size(), 33U);
  EXPECT_EQ(plan_job(options({"prog"}), input({{"a", numbered_slots(33)}}, false)).ranks.size(),
            33U);
  const auto warned = plan_job(options({"prog"}), input({{"a", numbered_slots(9)}}));
  EXPECT_THAT(warned.warnings, ElementsAre(HasSubstr("9 ranks share 8 cores")));
  EXPECT_EQ(warned.ranks.size(), 9U);
}

TEST(JobProgram, IsCheckedBeforeRanksStart) {
  const std::filesystem::path folder =
      testing::TempDir() + "launch_program_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "plain") << "x";
  const auto refusal = [](const Options& given) {
    try {
      check_program(given);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(options({"true"})), "");
  EXPECT_THAT(refusal(options({"no-such-program-here"})), HasSubstr("no-such-program-here"));
  EXPECT_THAT(refusal(options({(folder / "none").c_str()})), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(options({(folder / "none.py").c_str()})), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(options({folder.c_str()})), HasSubstr("is a folder"));
  EXPECT_THAT(refusal(options({(folder / "plain").c_str()})), HasSubstr("is not executable"));
  EXPECT_EQ(refusal(options({"--module", "no.such.module"})), "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace anyaccel::launch
