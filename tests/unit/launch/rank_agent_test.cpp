#include "launch/rank_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "anyaccel/error.h"

namespace anyaccel::launch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Act>
std::string refusal(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Fails if a word does not survive a round-trip, or its encoding contains a character that an MPI
// or Slurm launcher may interpret.
TEST(JobWords, RoundTrip) {
  std::string bytes;
  for (int i = 1; i < 256; ++i) bytes += static_cast<char>(i);
  for (const auto& words : {std::vector<std::string>{"a b", "", "it's \"x\"", "two\nlines", "100%",
                                                     "~", "a=b,c;d", bytes},
                            std::vector<std::string>{"one"}, std::vector<std::string>{""}}) {
    const auto text = format_words(words);
    EXPECT_EQ(parse_words(text), words);
    EXPECT_EQ(text.find_first_not_of(
                  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@+%~"),
              std::string::npos);
  }
  EXPECT_EQ(format_words({"--world", "a:0@b:GPU-x", "--lr", "a b"}),
            "--world~a:0@b:GPU-x~--lr~a%20b");
  for (const char* wrong : {"a%", "a%2", "a%zz", "a%00b", "a b", "$x"})
    EXPECT_THAT(refusal([&] { parse_words(wrong); }), HasSubstr("is not a valid job description"));
}

RankPlace place(Runner runner, const std::map<std::string, std::string>& variables) {
  return place_of(runner, [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

void expect_place(const RankPlace& place, int rank, int world, int local, std::optional<int> of) {
  EXPECT_EQ(place.rank, rank);
  EXPECT_EQ(place.world_size, world);
  EXPECT_EQ(place.local_rank, local);
  EXPECT_EQ(place.local_size, of);
}

// Fails if a rank's position in the job is read from the variables of the wrong runner.
TEST(RankPlace, IsReadFromTheRunnersVariables) {
  expect_place(place(Runner::openmpi, {{"OMPI_COMM_WORLD_RANK", "3"},
                                       {"OMPI_COMM_WORLD_SIZE", "4"},
                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                       // set by a Slurm allocation in which mpirun runs
                                       {"SLURM_PROCID", "0"},
                                       {"PMI_RANK", "0"}}),
               3, 4, 1, 2);
  for (const auto runner : {Runner::mpich, Runner::impi, Runner::mvapich})
    expect_place(place(runner, {{"PMI_RANK", "3"},
                                {"PMI_SIZE", "4"},
                                {"MPI_LOCALRANKID", "1"},
                                {"MPI_LOCALNRANKS", "2"}}),
                 3, 4, 1, 2);
  expect_place(place(Runner::mvapich, {{"MV2_COMM_WORLD_RANK", "3"},
                                       {"MV2_COMM_WORLD_SIZE", "4"},
                                       {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                                       {"MV2_COMM_WORLD_LOCAL_SIZE", "2"},
                                       {"PMI_RANK", "0"}}),
               3, 4, 1, 2);
  expect_place(place(Runner::slurm, {{"SLURM_PROCID", "3"},
                                     {"SLURM_STEP_NUM_TASKS", "4"},
                                     {"SLURM_LOCALID", "1"},
                                     {"SLURM_NTASKS", "16"}}),
               3, 4, 1, std::nullopt);
}

// Fails if an agent whose environment contains no rank, for example because a user started it
// directly, runs as rank 0.
TEST(RankPlace, IsNotGuessed) {
  EXPECT_THAT(refusal([] {
                place(Runner::mpich, {{"OMPI_COMM_WORLD_RANK", "0"}});
              }),
              HasSubstr("got no PMI_RANK"));
  EXPECT_THAT(refusal([] { place(Runner::mpich, {{"PMI_RANK", "x"}}); }), HasSubstr("PMI_RANK=x"));
  EXPECT_THAT(refusal([] {
                place(Runner::slurm, {{"SLURM_PROCID", "0"}});
              }),
              HasSubstr("SLURM_STEP_NUM_TASKS"));
}

// Fails if a rank is assigned to the wrong host when hosts have different numbers of slots, or a
// rank that runs on an unplanned host is accepted.
TEST(HostOfRank, FollowsThePlan) {
  const std::vector<Host> hosts{{"a", {"0", "1", "2"}}, {"b", {"GPU-x"}}, {"c", {"0", "1"}}};
  const int host[] = {0, 0, 0, 1, 2, 2}, local[] = {0, 1, 2, 0, 0, 1}, size[] = {3, 3, 3, 1, 2, 2};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(host_of(hosts, {rank, 6, local[rank], size[rank]}, Runner::mpich),
              static_cast<std::size_t>(host[rank]));
    EXPECT_EQ(host_of(hosts, {rank, 6, local[rank], std::nullopt}, Runner::slurm),
              static_cast<std::size_t>(host[rank]));
  }
  for (const RankPlace wrong :
       {RankPlace{3, 6, 1, 2}, RankPlace{3, 6, 0, 2}, RankPlace{6, 7, 0, 1}, RankPlace{0, 7, 0, 3}})
    EXPECT_THAT(refusal([&] { host_of(hosts, wrong, Runner::openmpi); }),
                AllOf(HasSubstr("openmpi placed ranks differently than planned"),
                      HasSubstr("--launcher_args")));
}

// Fails if the agent does not receive the launcher's options, or the agent's rank inherits the
// variable that contains them.
TEST(RankOptions, ComeFromTheLauncher) {
  const auto folder = std::filesystem::canonical(testing::TempDir()).string();
  ::setenv(kJobVariable,
           format_words({"--folder", folder, "--set", "RANK_AGENT_TEST=a b\nc", "--world",
                         "a:0@b:0,1", "--master_addr", "10.0.0.1", "--master_port", "29500",
                         "--bind_cores_to_rank", "--", "prog", "", "x y"})
               .c_str(),
           1);
  for (const auto& [name, value] : {std::pair{"PMI_RANK", "2"},
                                    {"PMI_SIZE", "3"},
                                    {"MPI_LOCALRANKID", "1"},
                                    {"MPI_LOCALNRANKS", "2"}})
    ::setenv(name, value, 1);
  const auto options = rank_options(Runner::mpich);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.local_rank, 1);
  EXPECT_TRUE(options.no_ssh && options.agent && options.bind_cores);
  EXPECT_EQ(options.program, "prog");
  EXPECT_THAT(options.arguments, ElementsAre("", "x y"));
  EXPECT_STREQ(std::getenv("RANK_AGENT_TEST"), "a b\nc");
  EXPECT_EQ(std::getenv(kJobVariable), nullptr);
  EXPECT_EQ(std::filesystem::current_path(), folder);
  EXPECT_THAT(refusal([] { rank_options(Runner::mpich); }), HasSubstr("did not forward"));
}

// Fails if an agent does not notice that its parent has exited.
TEST(ParentsEnd, IsDetected) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    int ready[2];
    if (::pipe(ready) != 0) ::_exit(1);
    if (::fork() == 0) {
      ::close(ready[0]);
      const int descriptor = end_of_job(Runner::openmpi);
      if (descriptor < 0) ::_exit(2);
      fd_set set;
      FD_ZERO(&set);
      FD_SET(descriptor, &set);
      ::close(ready[1]);
      // Blocks until the parent exits. If select() does not detect the exit, the test times out.
      const char answer =
          ::select(descriptor + 1, &set, nullptr, nullptr, nullptr) == 1 ? 'y' : 'n';
      ::_exit(::write(ends[1], &answer, 1) == 1 ? 0 : 1);
    }
    ::close(ready[1]);
    char none = 0;
    ::_exit(::read(ready[0], &none, 1) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(parent, &status, 0);
  ::close(ends[1]);
  char answer = 0;
  EXPECT_EQ(::read(ends[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  ::close(ends[0]);
}

// Fails if an agent started by Slurm does not detect the end of the job, or mistakes data on
// standard input for end-of-file.
TEST(EndOfJob, IsTheEndOfInputUnderSlurm) {
  int ends[2], looked[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::pipe(looked), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  const pid_t agent = ::fork();
  if (agent == 0) {
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[1]);
    pollfd one{end_of_job(Runner::slurm), POLLIN, 0};
    const char early = ::poll(&one, 1, 0) != 0 ? 'y' : 'n';
    if (::write(looked[1], &early, 1) != 1) ::_exit(2);
    ::_exit(::poll(&one, 1, -1) == 1 ? 0 : 1);
  }
  char early = 0;
  EXPECT_EQ(::read(looked[0], &early, 1), 1);
  EXPECT_EQ(early, 'n');
  for (const int descriptor : {ends[0], ends[1], looked[0], looked[1]}) ::close(descriptor);
  int status = 0;
  ::waitpid(agent, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace anyaccel::launch
