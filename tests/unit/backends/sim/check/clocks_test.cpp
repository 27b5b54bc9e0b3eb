#include "backends/sim/check/clocks.h"

#include <gtest/gtest.h>

namespace anyaccel::backends::sim::checking {
namespace {

// Fails if unrelated streams count as ordered, or work on one stream as unordered.
TEST(SimCheckClocks, StreamsAreUnordered) {
  Clocks clocks;
  const auto first = clocks.tick(0);
  clocks.tick(5);
  EXPECT_TRUE(clocks.ordered(0, first, 0));
  EXPECT_FALSE(clocks.ordered(0, first, 5));
  EXPECT_FALSE(clocks.known_by_host(0, first));
}

// Fails if waiting for an event orders anything but the work before the event, or the order is not
// transitive.
TEST(SimCheckClocks, EventsOrderEarlierWork) {
  Clocks clocks;
  const auto before = clocks.tick(0);
  clocks.record(1, 0);
  const auto after = clocks.tick(0);
  clocks.wait(1, 1);
  EXPECT_TRUE(clocks.ordered(0, before, 1));
  EXPECT_FALSE(clocks.ordered(0, after, 1));
  clocks.record(2, 1);
  clocks.wait(2, 2);
  EXPECT_TRUE(clocks.ordered(0, before, 2));
  EXPECT_FALSE(clocks.ordered(0, after, 2));
}

// Fails if work that the host has waited for is not ordered before later launches on every stream.
TEST(SimCheckClocks, HostWaitsOrderLaterLaunches) {
  Clocks clocks;
  const auto work = clocks.tick(3);
  clocks.record(1, 3);
  const auto later = clocks.tick(3);
  clocks.host_waits_for_event(1);
  clocks.tick(4);
  EXPECT_TRUE(clocks.known_by_host(3, work));
  EXPECT_FALSE(clocks.known_by_host(3, later));
  EXPECT_TRUE(clocks.ordered(3, work, 4));
  EXPECT_FALSE(clocks.ordered(3, later, 4));
  clocks.host_waits_for_stream(3);
  EXPECT_TRUE(clocks.ordered(3, later, 4));
}

// Fails if waiting for an event that is no longer in the bounded history orders nothing. Correct
// programs would then be reported as incorrect.
TEST(SimCheckClocks, DroppedEventsOrderEverything) {
  Clocks clocks;
  const auto work = clocks.tick(0);
  for (std::uint64_t event = 1; event < 40000; ++event) clocks.record(event, 1);
  EXPECT_FALSE(clocks.ordered(0, work, 2));
  clocks.wait(39999, 2);
  EXPECT_FALSE(clocks.ordered(0, work, 2));
  clocks.wait(1, 2);
  EXPECT_TRUE(clocks.ordered(0, work, 2));
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
