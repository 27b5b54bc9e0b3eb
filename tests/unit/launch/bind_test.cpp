#include "launch/bind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>

namespace anyaccel::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Runs `act` in a child process, so that only the child is bound, and returns its result.
std::string in_child(const std::function<std::string()>& act) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const auto text = act();
    const bool written =
        ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t got = 0; (got = ::read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? text : "the child failed";
}

/// Makes the given system call fail with EPERM from now on, as in a container. Returns false if the
/// system does not support seccomp filters.
bool forbid(long call) {
  const std::array<sock_filter, 4> code{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(code.size()),
                           const_cast<sock_filter*>(code.data())};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

std::string memory_policy() {
  int mode = -1;
  unsigned long nodes = 0;
  // Some kernels require a mask with room for the maximum number of nodes that they support.
  std::array<unsigned long, 64> mask{};
  if (::syscall(SYS_get_mempolicy, &mode, mask.data(), mask.size() * 64, nullptr, 0) != 0)
    return "unknown";
  nodes = mask[0];
  return std::to_string(mode) + ":" + std::to_string(nodes);
}

std::string text_of(const BindResult& result) {
  return "cores " + topology::format_cpu_list(topology::allowed_cpus()) +
         "; refused: " + result.cores_refused + "; memory " + memory_policy() +
         "; refused: " + result.memory_refused;
}

/// A plan with the last CPU that this process may use and the first node with memory.
RankPlan rank_here(MemoryPolicy policy) {
  const auto& machine = topology::this_machine();
  RankPlan rank;
  rank.cores = {topology::allowed_cpus().back()};
  for (const auto& node : machine.nodes)
    if (node.memory > 0 && rank.memory_nodes.empty()) rank.memory_nodes = {node.os_index};
  rank.policy = policy;
  return rank;
}

std::string cores_text(const RankPlan& rank) {
  return "cores " + topology::format_cpu_list(rank.cores) + "; refused: ;";
}

std::string memory_text(const RankPlan& rank, int mode) {
  return "memory " + std::to_string(mode) + ":" + std::to_string(1UL << rank.memory_nodes.at(0)) +
         "; refused: ";
}

class Bind : public testing::Test {
 protected:
  void SetUp() override {
    if (memory_policy() == "unknown") GTEST_SKIP() << "this system has no memory policies";
  }
};

// Fails if cores or memory are not bound, or an error is reported although binding succeeded.
TEST_F(Bind, CoresAndMemory) {
  const auto rank = rank_here(MemoryPolicy::bind);
  EXPECT_EQ(in_child([&] { return text_of(bind_this_process(rank)); }),
            cores_text(rank) + " " + memory_text(rank, MPOL_BIND));
}

// Fails if preferred memory (HBM in flat mode) is bound strictly. A rank that needs more memory
// than the HBM has would then be killed.
TEST_F(Bind, PreferredMemoryIsNotBound) {
  const auto rank = rank_here(MemoryPolicy::preferred);
  const auto text = in_child([&] { return text_of(bind_this_process(rank)); });
  const bool one = text == cores_text(rank) + " " + memory_text(rank, MPOL_PREFERRED);
  const bool many = text == cores_text(rank) + " " + memory_text(rank, MPOL_PREFERRED_MANY);
  EXPECT_TRUE(one || many) << text;
}

// Fails if a rank without a binding in its plan is bound.
TEST_F(Bind, UnboundRankStaysUnbound) {
  const auto before = in_child([] { return text_of({}); });
  EXPECT_EQ(in_child([] { return text_of(bind_this_process({})); }), before);
}

// Fails if a container that forbids memory policies prevents the core binding, or the user is not
// warned.
TEST_F(Bind, ForbiddenMemoryPolicyGivesAWarning) {
  const auto rank = rank_here(MemoryPolicy::bind);
  const auto text = in_child([&] {
    return forbid(SYS_set_mempolicy) ? text_of(bind_this_process(rank)) : std::string("no filters");
  });
  if (text == "no filters") GTEST_SKIP() << "this system has no seccomp filters";
  EXPECT_THAT(text,
              AllOf(HasSubstr(cores_text(rank)),
                    HasSubstr("memory 0:0; refused: rank 0 of this host allocates memory on any"),
                    HasSubstr("Operation not permitted"), HasSubstr("SYS_NICE")));
}

// Fails if a refused core binding prevents the memory binding, or the user is not warned.
TEST_F(Bind, ForbiddenAffinityGivesAWarning) {
  const auto rank = rank_here(MemoryPolicy::bind);
  const auto text = in_child([&] {
    return forbid(SYS_sched_setaffinity) ? text_of(bind_this_process(rank))
                                         : std::string("no filters");
  });
  if (text == "no filters") GTEST_SKIP() << "this system has no seccomp filters";
  EXPECT_THAT(text,
              AllOf(HasSubstr("refused: rank 0 of this host is not bound to CPUs"),
                    HasSubstr("Operation not permitted"), HasSubstr(memory_text(rank, MPOL_BIND))));
}

// Fails if a missing CPU or node, as in a plan for another machine, is ignored silently.
TEST_F(Bind, PlanForAnotherMachine) {
  RankPlan rank{.cores = {100000}, .memory_nodes = {900}, .policy = MemoryPolicy::bind};
  const auto result = bind_this_process(rank);
  EXPECT_THAT(result.cores_refused, HasSubstr("not bound to CPUs 100000: "));
  EXPECT_THAT(result.memory_refused, HasSubstr("instead of only on nodes 900: "));
  // The kernel accepts a list with a missing CPU if another CPU in the list exists.
  const auto here = topology::allowed_cpus();
  rank = {.cores = {here.front(), 100000}};
  EXPECT_NE(in_child([&] { return bind_this_process(rank).cores_refused; }), "");
}

}  // namespace
}  // namespace anyaccel::launch
