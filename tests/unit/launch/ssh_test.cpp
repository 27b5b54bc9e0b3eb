#include "launch/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "anyaccel/error.h"

namespace anyaccel::launch {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Fails if --launcher_args is not split as a shell would split it.
TEST(SplitWords, LikeAShell) {
  EXPECT_THAT(split_words("  -o A=b  -i 'a b' \"c \\\"d\\\" \\e\" f\\ g '' "),
              ElementsAre("-o", "A=b", "-i", "a b", "c \"d\" \\e", "f g", ""));
  EXPECT_TRUE(split_words(" \t ").empty());
  EXPECT_THROW(split_words("a 'b"), Error);
}

JobInput input() {
  JobInput out;
  out.accelerator.traits.name = "card";
  out.accelerator.traits.export_envs = {"CARDLIB"};
  out.hosts = {{"a", {"0", "1"}}, {"b", {"GPU-x"}}};
  out.master_addr = "10.0.0.1";
  out.master_port = 29500;
  out.file_variables = {{"FROM_FILE", "x y"}};
  return out;
}

// Fails if the command for another host lacks a required option or variable, or the remote shell
// would split an argument.
TEST(RemoteCommand, IsComplete) {
  ::setenv("CARDLIB_DEBUG", "it's", 1);
  ::setenv("LAUNCH_TEST_PRIVATE", "secret", 1);
  const std::vector<const char*> words{"--bind_cores_to_rank",
                                       "--bind_core_list",
                                       "0-3",
                                       "--reserve_cores",
                                       "1",
                                       "--module",
                                       "--no_local_rank",
                                       "--oversubscribe",
                                       "--enable_each_rank_log",
                                       "my logs",
                                       "--venv_script",
                                       "/v/activate",
                                       "train",
                                       "--lr",
                                       "a b"};
  const auto command = remote_command(parse_options(words), input(), 1, "/opt/any accel");
  for (const char* part :
       {"'/opt/any accel' launch --agent --silence 30 --no_ssh --node_rank 1 --world a:0,1@b:GPU-x "
        "--master_addr "
        "10.0.0.1 "
        "--master_port 29500",
        "'CARDLIB_DEBUG=it'\\''s'", "'FROM_FILE=x y'", "PYTHONPATH=", " --bind_cores_to_rank",
        "--bind_core_list 0-3", "--reserve_cores 1", "--module", "--no_local_rank",
        "--oversubscribe", "--enable_each_rank_log 'my logs'", "--venv_script /v/activate",
        "-- train --lr 'a b'"})
    EXPECT_THAT(command, HasSubstr(part));
  EXPECT_THAT(command, testing::StartsWith("cd "));
  EXPECT_THAT(command, Not(HasSubstr("LAUNCH_TEST_PRIVATE")));
}

// Fails if --ssh_port or --launcher_args does not reach ssh, or ssh may ask for a password, which
// nobody could enter.
TEST(SshJob, OneCommandPerHost) {
  const std::vector<const char*> words{"--ssh_port", "2222", "--launcher_args", "-i 'my key'",
                                       "prog"};
  const auto job = ssh_job(parse_options(words), input(), "/opt/anyaccel");
  ASSERT_EQ(job.ranks.size(), 2U);
  EXPECT_EQ(job.world_size, 3);
  EXPECT_EQ(job.input, RankInput::held);
  const auto& command = job.ranks[1].command;
  EXPECT_EQ(command.front(), "ssh");
  EXPECT_THAT(command, AllOf(Contains("BatchMode=yes"), Contains("2222"), Contains("my key"),
                             Contains("b")));
  EXPECT_THAT(command.back(), HasSubstr("--node_rank 1"));
  EXPECT_THAT(command.back(), HasSubstr("--silence 30"));
}

// Fails if the launcher waits forever for an unresponsive host, or the user cannot override the
// time limit. If an option is given twice, ssh uses the first value.
TEST(SshJob, UserLimitsTakePrecedence) {
  const std::vector<const char*> words{"--launcher_args", "-o ServerAliveInterval=99", "prog"};
  const auto job = ssh_job(parse_options(words), input(), "/opt/anyaccel");
  auto command = job.ranks[0].command;
  command.pop_back();
  EXPECT_THAT(command,
              ElementsAre("ssh", "-T", "-o", "BatchMode=yes", "-o", "PasswordAuthentication=no",
                          "-o", "ServerAliveInterval=99", "-o", "ConnectTimeout=30", "-o",
                          "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "a"));
}

// Fails if a list of hosts changes when one launcher writes it and another launcher reads it.
TEST(Hosts, RoundTrip) {
  const std::vector<Host> hosts{{"b", {"1", "3"}}, {"a", {"GPU-z", "GPU-a"}}, {"c", {"4", "2"}}};
  EXPECT_EQ(parse_hosts(format_hosts(hosts)), hosts);
}

}  // namespace
}  // namespace anyaccel::launch
