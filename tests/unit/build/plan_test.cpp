// Tests the commands that the build service derives from a description.
#include "build/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace anyaccel::build {

namespace {

using testing::Contains;
using testing::Not;
using testing::StartsWith;

Step step_with(const std::string& identity) {
  Op op;
  op.description.name = "axpy";
  op.description.sources = {{.files = {"axpy.cpp"}, .flags = {}}};
  const Tools tools{
      .compiler = "/usr/bin/c++", .nvcc = "", .ccache = "", .compiler_identity = identity};
  return make_plan(op, {}, nullptr, {}, tools, "/tmp").steps.front();
}

// Fails if GCC does not get the option that sets its heap size. Without this option, the first
// build of an op takes 10% longer. Other compilers must not get the option.
TEST(PlanTest, OnlyGccGetsGccOptions) {
  for (const char* gcc : {"c++ (Debian 12.2.0-14+deb12u1) 12.2.0 size 1",
                          "x86_64-conda-linux-gnu-c++ (conda-forge gcc 14.2.0-1) 14.2.0 size 1"})
    EXPECT_THAT(step_with(gcc).command, Contains(StartsWith("--param=ggc-min-heapsize="))) << gcc;
  for (const char* other :
       {"", "Debian clang version 14.0.6 size 1",
        "clang version 17.0.6 (https://example.org) size 1",
        "Intel(R) oneAPI DPC++/C++ Compiler 2024.0.0 (2024.0.0.20231017) size 1"})
    EXPECT_THAT(step_with(other).command, Not(Contains(StartsWith("--param")))) << other;
}

// Fails if ops on ARM are compiled without the option that avoids wrong results of GCC 12, or on
// other machines with it.
TEST(PlanTest, GccOnArmDoesNotVectorizeEpilogues) {
  const std::string gcc = "c++ (Debian 12.2.0-14+deb12u1) 12.2.0 size 1",
                    wanted = "--param=vect-epilogues-nomask=0";
  EXPECT_THAT(gcc_flags(gcc, "aarch64"), Contains(wanted));
  EXPECT_THAT(gcc_flags(gcc, "x86_64"), Not(Contains(wanted)));
  EXPECT_THAT(gcc_flags("Debian clang version 14.0.6 size 1", "aarch64"), testing::IsEmpty());
}

// Fails if the sources that a description lists on one line are not compiled together into one
// object, in order. Compiling each source separately would parse the headers again.
TEST(PlanTest, SourcesOfALineFormOneObject) {
  Op op;
  op.file = "/ops/axpy/axpy.op";
  op.description.name = "axpy";
  op.description.sources = {{.files = {"a.cpp", "b/c.cpp", "d.cpp"}, .flags = {"-O3"}},
                            {.files = {"e.cpp"}}};
  const Tools tools{.compiler = "/usr/bin/c++", .nvcc = "", .ccache = "", .compiler_identity = ""};
  const auto plan = make_plan(op, {}, nullptr, {}, tools, "/tmp");
  ASSERT_EQ(plan.steps.size(), 2U);
  const auto& command = plan.steps[0].command;
  const std::vector<std::string> wanted{
      "-include", "/ops/axpy/a.cpp", "-include", "/ops/axpy/b/c.cpp",
      "-c",       "/ops/axpy/d.cpp", "-o",       "/tmp/0-d.cpp.o"};
  ASSERT_GE(command.size(), wanted.size());
  EXPECT_EQ(std::vector<std::string>(command.end() - static_cast<std::ptrdiff_t>(wanted.size()),
                                     command.end()),
            wanted);
  EXPECT_EQ(plan.steps[0].source, "a.cpp b/c.cpp d.cpp");
  EXPECT_THAT(command, Contains("-O3"));
  EXPECT_THAT(plan.steps[1].command, Not(Contains("-include")));
}

}  // namespace

}  // namespace anyaccel::build
