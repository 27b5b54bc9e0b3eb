// Tests that command lines for DeepSpeed's launcher keep their meaning, and that errors name the
// invalid option.
#include "launch/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace anyaccel::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Options parse(std::vector<const char*> words) { return parse_options(words); }

std::string refusal(std::vector<const char*> words) {
  try {
    parse_options(words);
  } catch (const OptionError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(LaunchOptions, DocumentedCommands) {
  auto options = parse({"--bind_cores_to_rank", "train.py"});
  EXPECT_TRUE(options.bind_cores);
  EXPECT_EQ(options.program, "train.py");
  options = parse({"--bind_cores_to_rank", "--bind_core_list", "0-51,56-107", "train.py"});
  EXPECT_EQ(options.core_list, "0-51,56-107");
  options = parse({"--num_accelerators", "4", "--bind_cores_to_rank", "train.py"});
  EXPECT_EQ(options.num_accelerators, 4);
  options = parse({"--hostfile=hosts", "--bind_cores_to_rank", "--launcher", "impi",
                   "--master_addr", "10.0.0.1", "train.py"});
  EXPECT_EQ(options.host_file, "hosts");
  EXPECT_EQ(options.runner, Runner::impi);
  EXPECT_EQ(options.master_addr, "10.0.0.1");
}

TEST(LaunchOptions, NamesAcceptDashesAndUnderscores) {
  EXPECT_EQ(parse({"--bind-core-list", "1", "a"}).core_list, "1");
  EXPECT_EQ(parse({"--master-port=29500", "a"}).master_port, 29500);
  EXPECT_TRUE(parse({"--no-local_rank", "a"}).no_local_rank);
}

TEST(LaunchOptions, AcceptsEveryOptionOfDeepSpeed) {
  const auto options = parse({"-H",
                              "h",
                              "-i",
                              "a:0",
                              "--master_port",
                              "1",
                              "--launcher_args",
                              "-x -y",
                              "--module",
                              "--no_local_rank",
                              "--no_ssh",
                              "--no_ssh_check",
                              "--node_rank",
                              "2",
                              "--save_pid",
                              "--enable_each_rank_log",
                              "logs",
                              "--ssh_port",
                              "2222",
                              "--venv_script",
                              "activate",
                              "--log_level",
                              "critical",
                              "m"});
  EXPECT_EQ(options.host_file, "h");
  EXPECT_EQ(options.include, "a:0");
  EXPECT_EQ(options.runner_arguments, "-x -y");
  EXPECT_TRUE(options.module && options.no_local_rank && options.no_ssh && options.no_ssh_check &&
              options.save_pid);
  EXPECT_EQ(options.node_rank, 2);
  EXPECT_EQ(options.log_folder, "logs");
  EXPECT_EQ(options.ssh_port, 2222);
  EXPECT_EQ(options.venv_script, "activate");
  EXPECT_EQ(options.log_level, LogLevel::error);
  EXPECT_EQ(parse({"-e", "a", "m"}).exclude, "a");
  EXPECT_TRUE(parse({"--force_multi", "m"}).force_multi);
  EXPECT_TRUE(parse({"--no_python", "m"}).no_python);
  EXPECT_EQ(parse({"--num_gpus", "3", "--num_nodes", "2", "m"}).num_accelerators, 3);
  EXPECT_EQ(parse({"-q", "m"}).log_level, LogLevel::error);
  EXPECT_EQ(parse({"-Hhosts", "m"}).host_file, "hosts");
}

TEST(LaunchOptions, DeepSpeedDefaultsLeaveOptionsUnset) {
  const auto options =
      parse({"--num_gpus", "-1", "--num_nodes=-1", "--enable_each_rank_log", "None", "m"});
  EXPECT_FALSE(options.num_accelerators || options.num_nodes || options.log_folder);
}

// Fails if an empty value, as from an unset variable in "--include $ONLY", is an error. As in
// DeepSpeed, an empty value selects the default.
TEST(LaunchOptions, EmptyValuesSelectTheDefault) {
  const auto options = parse({"--include", "", "--exclude=", "--master_addr", "", "--hostfile", "",
                              "--launcher_args", "", "m"});
  EXPECT_EQ(options.include + options.exclude + options.master_addr + options.runner_arguments, "");
  EXPECT_FALSE(options.host_file);
  EXPECT_EQ(parse({"-i", "", "-e", "a", "--num_nodes", "-1", "m"}).exclude, "a");
  EXPECT_EQ(parse({"--include", "", "--num_gpus", "2", "m"}).num_accelerators, 2);
}

// Fails if the error about a misspelled option, or about an option of a different launcher, does
// not suggest an alternative.
TEST(LaunchOptions, UnknownOptionsGetSuggestions) {
  EXPECT_THAT(
      refusal({"--num_acelerators", "2", "a"}),
      HasSubstr("unknown option \"--num_acelerators\"; did you mean '--num_accelerators'?"));
  EXPECT_THAT(refusal({"--num-acelerators=2", "a"}),
              HasSubstr("did you mean '--num_accelerators'?"));
  EXPECT_THAT(refusal({"--host", "a", "a"}), HasSubstr("use --hostfile FILE"));
  EXPECT_THAT(refusal({"-hostfile", "a", "a"}), HasSubstr("did you mean '--hostfile'?"));
  EXPECT_THAT(refusal({"-include", "a", "a"}), HasSubstr("did you mean '--include'?"));
  EXPECT_THAT(
      refusal({"--nproc_per_node", "2", "a"}),
      HasSubstr(
          "unknown option \"--nproc_per_node\"; that is torchrun's; use --num_accelerators N"));
  EXPECT_THAT(refusal({"--nproc-per-node=2", "a"}), HasSubstr("use --num_accelerators N"));
  EXPECT_THAT(refusal({"--nnodes=1:2", "a"}), HasSubstr("use --num_nodes N"));
  EXPECT_THAT(refusal({"--rdzv_endpoint=a:1", "a"}),
              HasSubstr("use --master_addr ADDRESS and --master_port PORT"));
  EXPECT_THAT(refusal({"-np", "2", "a"}), HasSubstr("mpirun's; use --num_accelerators N"));
  EXPECT_THAT(refusal({"-n", "2", "a"}), HasSubstr("use --num_accelerators N"));
  EXPECT_THAT(refusal({"-env", "A", "1", "a"}), HasSubstr("mpiexec's"));
  EXPECT_THAT(refusal({"--num_processes", "2", "a"}), HasSubstr("accelerate's"));
  EXPECT_THAT(refusal({"--ntasks-per-node=2", "a"}), HasSubstr("srun's"));
  // Internal options, which launchers pass to each other, are not suggested.
  EXPECT_THAT(refusal({"--wrld", "a"}), Not(HasSubstr("--world")));
  EXPECT_THAT(refusal({"--xyzzyplugh", "a"}), Not(HasSubstr("did you mean")));
  EXPECT_THAT(refusal({"--n", "a"}), Not(HasSubstr("mpirun")));
}

TEST(LaunchOptions, ArgumentsOfTheProgramAreNotParsed) {
  const auto options = parse({"-q", "prog", "--num_gpus", "2", "--", "--log_level", "x"});
  EXPECT_EQ(options.program, "prog");
  EXPECT_THAT(options.arguments, ElementsAre("--num_gpus", "2", "--", "--log_level", "x"));
  EXPECT_FALSE(options.num_accelerators);
  EXPECT_EQ(parse({"--", "--odd"}).program, "--odd");
}

TEST(LaunchOptions, ErrorsGiveTheReason) {
  EXPECT_THAT(refusal({"--autotuning", "run", "a"}), HasSubstr("--autotuning is not supported"));
  EXPECT_THAT(refusal({"--elastic-training", "a"}),
              HasSubstr("--elastic_training is not supported"));
  EXPECT_THAT(refusal({"--min_elastic_nodes", "1", "a"}), HasSubstr("is not supported"));
  EXPECT_THAT(refusal({"--no-such", "a"}), HasSubstr("unknown option \"--no-such\""));
  EXPECT_THAT(refusal({"-z", "a"}), HasSubstr("unknown option \"-z\""));
  EXPECT_THAT(refusal({"-qx", "a"}), HasSubstr("unknown option \"-qx\""));
  EXPECT_THAT(refusal({}), HasSubstr("no program"));
  EXPECT_THAT(refusal({"-q"}), HasSubstr("no program"));
  EXPECT_THAT(refusal({""}), HasSubstr("empty"));
  EXPECT_THAT(refusal({"--hostfile"}), HasSubstr("--hostfile requires a value"));
  EXPECT_THAT(refusal({"--venv_script=", "a"}), HasSubstr("--venv_script requires a value"));
  EXPECT_THAT(refusal({"--module=1", "a"}), HasSubstr("--module takes no value"));
  EXPECT_THAT(refusal({"--num_gpus", "0", "a"}), HasSubstr("of at least 1"));
  EXPECT_THAT(refusal({"--num_gpus", "2x", "a"}), HasSubstr("\"2x\""));
  EXPECT_THAT(refusal({"--num_gpus", "99999999999", "a"}), HasSubstr("99999999999"));
  EXPECT_THAT(refusal({"--master_port", "70000", "a"}), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(refusal({"--launcher", "rsh", "a"}), HasSubstr("one of pdsh, ssh, openmpi"));
  EXPECT_THAT(refusal({"--log_level", "loud", "a"}), HasSubstr("\"loud\""));
}

TEST(LaunchOptions, ContradictionsAreRejected) {
  EXPECT_THAT(refusal({"--module", "--no_python", "a"}), HasSubstr("are mutually exclusive"));
  EXPECT_THAT(refusal({"-i", "a", "-e", "b", "a"}),
              HasSubstr("--include and --exclude are mutually exclusive"));
  EXPECT_THAT(refusal({"-i", "a", "--num_gpus", "1", "a"}),
              HasSubstr("cannot be used with --include"));
  EXPECT_THAT(refusal({"--json", "a"}), HasSubstr("--json requires --dry_run"));
  EXPECT_THAT(refusal({"--topology", "x.xml", "a"}), HasSubstr("--topology requires --dry_run"));
  EXPECT_THAT(refusal({"--node_rank", "0", "a"}), HasSubstr("--node_rank requires --no_ssh"));
  EXPECT_THAT(refusal({"--force_multi", "--no_ssh", "a"}), HasSubstr("are mutually exclusive"));
  EXPECT_THAT(refusal({"--prefix_output", "--enable_each_rank_log", "x", "a"}),
              HasSubstr("are mutually exclusive"));
}

TEST(LaunchOptions, HelpListsOptionsAndRequiresNoProgram) {
  EXPECT_TRUE(parse({"--help"}).help);
  EXPECT_TRUE(parse({"-h", "--no-such"}).help);
  const auto help = options_help();
  for (const char* name : {"--hostfile", "--num_gpus", "--bind_core_list", "--venv_script",
                           "--oversubscribe", "--dry_run"})
    EXPECT_THAT(help, HasSubstr(name));
}

}  // namespace
}  // namespace anyaccel::launch
