#include "launch/pdsh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "anyaccel/error.h"
#include "launch/ssh.h"

namespace anyaccel::launch {
namespace {

using testing::ElementsAre;

class Pdsh : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"PDSH_SSH_ARGS_APPEND", "PDSH_SSH_ARGS", "PDSH_CONNECT_TIMEOUT"})
      ::unsetenv(name);
  }
  static Options options(std::vector<const char*> words) {
    words.push_back("prog");
    return parse_options(words);
  }
  static std::vector<std::string> words(const Options& with,
                                        PdshPipes pipes = PdshPipes::launcher) {
    return pdsh_words(with, {"-o", "ServerAliveInterval=10"}, "host2", "cd /x && echo 50%h", pipes);
  }
};

constexpr const char* kScript =
    "\"$0\" \"$@\" </proc/$PPID/fd/0 >/proc/$PPID/fd/1 2>/proc/$PPID/fd/2; exit $?";

// Fails if the pdsh command line changes. Its options disable host labels and password prompts, and
// make pdsh return exit codes. Each % in the command must be escaped.
TEST_F(Pdsh, CommandLine) {
  EXPECT_THAT(words(options({})),
              ElementsAre("pdsh", "-N", "-S", "-R", "exec", "-w", "host2", "sh", "-c", kScript,
                          "ssh", "-T", "-o", "BatchMode=yes", "-o", "PasswordAuthentication=no",
                          "-o", "ServerAliveInterval=10", "-a", "-x", "%h", "cd /x && echo 50%%h"));
}

// Fails if --ssh_port, --launcher_args or the user's pdsh variables override each other, or the
// launcher's own options override them.
TEST_F(Pdsh, UserArguments) {
  ::setenv("PDSH_SSH_ARGS_APPEND", "-i  /my/key -v", 1);
  ::setenv("PDSH_SSH_ARGS", "-4 %h", 1);
  ::setenv("PDSH_CONNECT_TIMEOUT", "7", 1);
  EXPECT_THAT(
      words(options({"--ssh_port", "2222", "--launcher_args", "-l me -K"}), PdshPipes::pdsh),
      ElementsAre("env", "-u", "PDSH_CONNECT_TIMEOUT", "pdsh", "-N", "-S", "-R", "exec", "-w",
                  "host2", "-l", "me", "-K", "sh", "-c", "\"$0\" \"$@\" </dev/null; exit $?", "ssh",
                  "-T", "-o", "BatchMode=yes", "-o", "PasswordAuthentication=no", "-p", "2222",
                  "-i", "/my/key", "-v", "-o", "ConnectTimeout=7", "-o", "ServerAliveInterval=10",
                  "-4", "-l%u", "%h", "cd /x && echo 50%%h"));
}

// Fails if a host name that pdsh would interpret as a list, a file of hosts or an expression is
// accepted.
TEST_F(Pdsh, HostPatternsAreRejected) {
  for (const char* name : {"a[1-3]", "a,b", "^/etc/passwd", "/a.*/", "h%n"})
    EXPECT_THROW(pdsh_words(options({}), {}, name, "true", PdshPipes::pdsh), Error) << name;
}

// Fails if the time limit for unresponsive connections is ignored, or an invalid limit disables it.
TEST_F(Pdsh, TimeLimitOfConnections) {
  ::unsetenv("ANYACCEL_LAUNCH_SILENCE");
  EXPECT_EQ(silence_of_connections(), 30);
  ::setenv("ANYACCEL_LAUNCH_SILENCE", "0", 1);
  EXPECT_EQ(silence_of_connections(), 0);
  ::setenv("ANYACCEL_LAUNCH_SILENCE", "soon", 1);
  EXPECT_THROW(silence_of_connections(), Error);
  ::unsetenv("ANYACCEL_LAUNCH_SILENCE");
}

}  // namespace
}  // namespace anyaccel::launch
