#include "backends/sim/trace.h"

#include <gtest/gtest.h>

#include <thread>

namespace anyaccel::backends::sim {
namespace {

// Fails if kernels launched outside a recording are kept, or a recording includes kernels from an
// earlier one.
TEST(SimTrace, RecordsBetweenStartAndStop) {
  trace::add({.name = "before"});
  trace::start();
  trace::add({.name = "first", .start = 1, .end = 3, .correlation = 7});
  const auto kernels = trace::stop();
  trace::add({.name = "after"});
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_STREQ(kernels[0].name, "first");
  EXPECT_EQ(kernels[0].correlation, 7U);
  trace::start();
  EXPECT_TRUE(trace::stop().empty());
}

// Fails if the enclosing op is not current again after a nested op ends, or threads share their
// current op.
TEST(SimTrace, CorrelationsNestPerThread) {
  EXPECT_EQ(trace::correlation(), 0U);
  trace::push_correlation(1);
  trace::push_correlation(2);
  EXPECT_EQ(trace::correlation(), 2U);
  std::thread([] { EXPECT_EQ(trace::correlation(), 0U); }).join();
  trace::pop_correlation();
  EXPECT_EQ(trace::correlation(), 1U);
  trace::pop_correlation();
  trace::pop_correlation();  // one more than were pushed
  EXPECT_EQ(trace::correlation(), 0U);
}

}  // namespace
}  // namespace anyaccel::backends::sim
