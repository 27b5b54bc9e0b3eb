// Compares the command lines of MPI and Slurm launchers with tests/data/runners/<runner>.txt. To
// update these files, run with ANYACCEL_WRITE_PLANS=1 and review the diff.
#include "launch/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/shell.h"
#include "launch/rank_agent.h"
#include "test_paths.h"

namespace anyaccel::launch {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

Options options_of(std::vector<const char*> words) { return parse_options(words); }

JobInput input_of(std::vector<Host> hosts) {
  JobInput out;
  out.accelerator.traits.name = "card";
  out.hosts = std::move(hosts);
  out.master_addr = "a";
  out.master_port = 29500;
  return out;
}

JobInput this_host() {
  auto out = input_of({{"localhost", {"0", "1"}}});
  out.own_slots = true;
  return out;
}

std::string text_of(const std::string& title, const Options& options, const JobInput& input) {
  std::string text = "== " + title + "\n";
  try {
    const auto job = runner_job(options, input, "/opt/any accel", usual_program(*options.runner));
    for (const auto& [name, value] : job.ranks.front().environment)
      if (name != kJobVariable) text += assignment(name, value) + "\n";
    text += shell_quoted(job.ranks.front().command) + "\n";
  } catch (const Error& error) {
    text += error.what() + std::string("\n");
  }
  return text;
}

// Fails if the command line or environment of a runner changes.
TEST(GoldenRunner, EveryRunner) {
  for (const char* name : {"SLURMD_NODENAME", "HYDRA_LAUNCHER_EXTRA_ARGS",
                           "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "ANYACCEL_LAUNCH_SILENCE"})
    ::unsetenv(name);
  const std::vector<Host> uneven{{"b", {"0", "1"}}, {"a", {"GPU-x"}}, {"c", {"3", "5", "7"}}};
  for (const char* name : {"openmpi", "mpich", "impi", "mvapich", "slurm"}) {
    const auto options = options_of({"--launcher", name, "train.py"});
    auto text = text_of("this host", options, this_host());
    text += text_of("uneven hosts", options, input_of(uneven));
    text += text_of("even hosts", options, input_of({{"a", {"0", "1"}}, {"b", {"0", "1"}}}));
    text += text_of("words of the user's",
                    options_of({"--launcher", name, "--launcher_args", "-x 'a b' --y", "train.py"}),
                    input_of(uneven));
    text +=
        text_of("a port of ssh", options_of({"--launcher", name, "--ssh_port", "2222", "train.py"}),
                input_of(uneven));
    const auto golden = fs::path(ANYACCEL_TEST_DATA) / "runners" / (std::string(name) + ".txt");
    if (std::getenv("ANYACCEL_WRITE_PLANS") != nullptr) std::ofstream(golden) << text;
    EXPECT_EQ(text, try_read_file(golden).value_or("")) << golden;
  }
}

// Fails if Open MPI's daemons detect a lost host too late, or a value set by the user is replaced.
TEST(Runner, OpenMpiDetectsLostHosts) {
  const auto words = [](std::vector<const char*> options) {
    options.insert(options.begin(), {"--launcher", "openmpi"});
    options.push_back("train.py");
    return shell_quoted(
        runner_job(options_of(options), this_host(), "p", "mpirun").ranks.front().command);
  };
  const auto mca = [](int time, int interval) {
    return "--mca oob_tcp_keepalive_time " + std::to_string(time) +
           " --mca oob_tcp_keepalive_intvl " + std::to_string(interval) +
           " --mca oob_tcp_keepalive_probes 3 ";
  };
  for (const auto& [silence, time, interval] :
       {std::tuple{"30", 15, 5}, {"3", 1, 1}, {"1", 1, 1}, {"100", 52, 16}}) {
    ::setenv("ANYACCEL_LAUNCH_SILENCE", silence, 1);
    EXPECT_THAT(words({}), HasSubstr(mca(time, interval))) << silence;
  }
  EXPECT_THAT(words({"--launcher_args", "--mca oob_tcp_keepalive_time 99"}),
              Not(HasSubstr("intvl")));
  ::setenv("ANYACCEL_LAUNCH_SILENCE", "0", 1);
  EXPECT_THAT(words({}), Not(HasSubstr("keepalive")));
  ::unsetenv("ANYACCEL_LAUNCH_SILENCE");
  ::setenv("OMPI_MCA_oob_tcp_keepalive_time", "99", 1);
  EXPECT_THAT(words({}), Not(HasSubstr("keepalive")));
  ::unsetenv("OMPI_MCA_oob_tcp_keepalive_time");
}

// Fails if an option, a variable or an argument of the program does not reach the agents.
TEST(RunnerJob, PassesEverythingToTheAgents) {
  ::setenv("CARDLIB_DEBUG", "it's", 1);
  auto input = input_of({{"a", {"0", "1"}}, {"b", {"GPU-x"}}});
  input.accelerator.traits.export_envs = {"CARDLIB"};
  input.file_variables = {{"FROM_FILE", "x, \"y\"\nz"}};
  const auto options =
      options_of({"--launcher", "mpich", "--bind_core_list", "0-3", "--reserve_cores", "1",
                  "--module", "--no_local_rank", "--oversubscribe", "--prefix_output",
                  "--venv_script", "/v/activate", "train", "--lr", "a b"});
  const auto job = runner_job(options, input, "/opt/anyaccel", "mpiexec");
  ASSERT_EQ(job.ranks.size(), 1U);
  EXPECT_EQ(job.world_size, 3);
  EXPECT_EQ(job.input, RankInput::nothing);
  EXPECT_NE(job.end_signal, 0);
  std::vector<std::string> words;
  for (const auto& [name, value] : job.ranks.front().environment)
    if (name == kJobVariable) words = parse_words(value);
  std::vector<const char*> pointers;
  for (const auto& word : words) pointers.push_back(word.c_str());
  const auto handed = parse_options(pointers);
  EXPECT_EQ(parse_hosts(handed.world), input.hosts);
  EXPECT_EQ(handed.folder, fs::current_path());
  EXPECT_THAT(handed.variables, Contains(Pair("CARDLIB_DEBUG", "it's")));
  EXPECT_THAT(handed.variables, Contains(Pair("FROM_FILE", "x, \"y\"\nz")));
  EXPECT_EQ(handed.master_addr, "a");
  EXPECT_EQ(handed.master_port, 29500);
  EXPECT_EQ(handed.core_list, "0-3");
  EXPECT_EQ(handed.reserve_cores, 1);
  EXPECT_TRUE(handed.module && handed.no_local_rank && handed.oversubscribe &&
              handed.prefix_output && handed.bind_cores);
  EXPECT_EQ(handed.venv_script, "/v/activate");
  EXPECT_EQ(handed.program, "train");
  EXPECT_THAT(handed.arguments, testing::ElementsAre("--lr", "a b"));
  EXPECT_FALSE(handed.own_slots || handed.slot_nodes);
}

// Fails if agents do not receive --own_slots, which says that the slots are devices of the local
// host, or --slot_nodes, which lists the NUMA nodes of the devices.
TEST(RunnerJob, KeepsTheSlotsOfThisHost) {
  auto input = this_host();
  input.device_nodes = {1, 0};
  const auto job =
      runner_job(options_of({"--launcher", "openmpi", "prog"}), input, "/opt/anyaccel", "mpirun");
  for (const auto& [name, value] : job.ranks.front().environment)
    if (name == kJobVariable) {
      EXPECT_THAT(parse_words(value), testing::IsSupersetOf({"--own_slots", "--slot_nodes"}));
    }
}

// Fails if a missing MPI or Slurm launcher is not detected before it is executed, or the error does
// not say what to install.
TEST(CheckRunner, SaysWhatToInstall) {
  for (const auto& [name, words] : {std::pair{"openmpi", "openmpi-bin"},
                                    {"mpich", "MPICH"},
                                    {"impi", "impi-rt"},
                                    {"slurm", "slurm-client"}}) {
    try {
      check_runner(options_of({"--launcher", name, "prog"}), "");
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(name), HasSubstr(words)));
    }
  }
}

// Fails if the mpirun of one MPI implementation is mistaken for that of another.
TEST(FindRunner, ChecksTheVersion) {
  const fs::path folder = testing::TempDir() + "runners_" + std::to_string(::getpid());
  fs::create_directories(folder);
  const auto write = [&](const char* name, const char* says) {
    std::ofstream(folder / name) << "#!/bin/sh\necho '" << says << "'\n";
    fs::permissions(folder / name, fs::perms::owner_all);
  };
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder.c_str(), 1);
  for (const auto runner :
       {Runner::openmpi, Runner::mpich, Runner::impi, Runner::mvapich, Runner::slurm})
    EXPECT_EQ(find_runner(runner), "");
  write("mpirun", "HYDRA build details:");
  write("mpiexec", "HYDRA build details:");
  write("mpirun.openmpi", "mpirun.openmpi (OpenRTE) 4.1.4");
  write("mpiexec.hydra", "Intel(R) MPI Library for Linux* OS, Version 2021.18");
  write("srun", "slurm-wlm 22.05.8");
  EXPECT_EQ(find_runner(Runner::openmpi), "mpirun.openmpi");
  EXPECT_EQ(find_runner(Runner::mpich), "mpiexec");
  EXPECT_EQ(find_runner(Runner::impi), "mpiexec.hydra");
  EXPECT_EQ(find_runner(Runner::mvapich), "");
  EXPECT_EQ(find_runner(Runner::slurm), "srun");
  write("mpiname", "MVAPICH2 2.3.7");
  EXPECT_EQ(find_runner(Runner::mvapich), "mpiexec");
  ::setenv("PATH", path.c_str(), 1);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace anyaccel::launch
