#include "backends/sim/check/clocks.h"

#include <gtest/gtest.h>

#include "backends/sim/check/host_threads.h"

namespace anyaccel::backends::sim::checking {
namespace {

// Fails if unrelated streams count as ordered, or work on one stream as unordered.
TEST(SimCheckClocks, StreamsAreUnordered) {
  Clocks clocks;
  HostThread host;
  const auto first = clocks.tick(0, host);
  clocks.tick(5, host);
  EXPECT_TRUE(clocks.ordered(0, first, 0, host));
  EXPECT_FALSE(clocks.ordered(0, first, 5, host));
  EXPECT_FALSE(clocks.known_by_host(0, first, host));
}

// Fails if waiting for an event also orders work that does not precede the event, or if ordering is
// not transitive.
TEST(SimCheckClocks, EventsOrderEarlierWork) {
  Clocks clocks;
  HostThread host;
  const auto before = clocks.tick(0, host);
  clocks.record(1, 0, host);
  const auto after = clocks.tick(0, host);
  clocks.wait(1, 1);
  EXPECT_TRUE(clocks.ordered(0, before, 1, host));
  EXPECT_FALSE(clocks.ordered(0, after, 1, host));
  clocks.record(2, 1, host);
  clocks.wait(2, 2);
  EXPECT_TRUE(clocks.ordered(0, before, 2, host));
  EXPECT_FALSE(clocks.ordered(0, after, 2, host));
}

// Fails if work that the host has waited for is not ordered before later launches on every stream.
TEST(SimCheckClocks, HostWaitsOrderLaterLaunches) {
  Clocks clocks;
  HostThread host;
  const auto work = clocks.tick(3, host);
  clocks.record(1, 3, host);
  const auto later = clocks.tick(3, host);
  clocks.host_waits_for_event(1, host);
  clocks.tick(4, host);
  EXPECT_TRUE(clocks.known_by_host(3, work, host));
  EXPECT_FALSE(clocks.known_by_host(3, later, host));
  EXPECT_TRUE(clocks.ordered(3, work, 4, host));
  EXPECT_FALSE(clocks.ordered(3, later, 4, host));
  clocks.host_waits_for_stream(3, host);
  EXPECT_TRUE(clocks.ordered(3, later, 4, host));
}

// Fails if waiting for an event that is no longer in the bounded history orders nothing. Correct
// programs would then be reported as incorrect.
TEST(SimCheckClocks, DroppedEventsOrderEverything) {
  Clocks clocks;
  HostThread host;
  const auto work = clocks.tick(0, host);
  for (std::uint64_t event = 1; event < 40000; ++event) clocks.record(event, 1, host);
  EXPECT_FALSE(clocks.ordered(0, work, 2, host));
  clocks.wait(39999, 2);
  EXPECT_FALSE(clocks.ordered(0, work, 2, host));
  clocks.wait(1, 2);
  EXPECT_TRUE(clocks.ordered(0, work, 2, host));
}

// Fails if a wait by one thread orders launches of another thread that has not synchronized with
// it, or if an open thread is not treated as synchronized with all threads.
TEST(SimCheckClocks, WaitsCountForTheirThread) {
  Clocks clocks;
  HostThread first, second, open;
  first.id = 0;
  second.id = 1;
  const auto work = clocks.tick(3, first);
  clocks.host_waits_for_stream(3, first);
  clocks.tick(4, second);
  EXPECT_TRUE(clocks.known_by_host(3, work, first));
  EXPECT_FALSE(clocks.known_by_host(3, work, second));
  EXPECT_FALSE(clocks.ordered(3, work, 4, second));
  EXPECT_TRUE(clocks.known_by_host(3, work, open));
  EXPECT_TRUE(clocks.known_by_any(3, work));
  clocks.host_waits_for_stream(3, open);
  clocks.tick(4, second);
  EXPECT_TRUE(clocks.ordered(3, work, 4, second));
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
