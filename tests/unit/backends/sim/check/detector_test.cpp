// Tests of the detector without tensors: streams and addresses are plain integers.
#include "backends/sim/check/detector.h"

#include <gtest/gtest.h>

#include <thread>

namespace anyaccel::backends::sim::checking {
namespace {

constexpr std::uintptr_t kA = 0x1000, kB = 0x2000;
constexpr Pool kPool = 7;

Touch touch(std::uintptr_t storage, bool written, std::uintptr_t from = 0,
            std::uintptr_t to = 0x100) {
  return {.storage = storage,
          .bytes = 0x100,
          .region = {.low = storage + from, .high = storage + to},
          .written = written};
}
Touch reads(std::uintptr_t storage) { return touch(storage, false); }
Touch writes(std::uintptr_t storage) { return touch(storage, true); }

struct SimCheckDetector : testing::Test {
  SimCheckDetector() {
    detector.allocate(kA, 0x100, 0);
    detector.allocate(kB, 0x100, 0);
  }
  /// Returns the number of problems.
  std::size_t launch(StreamId stream, std::vector<Touch> touches) {
    last = detector.launch(stream, "op", touches);
    return last.size();
  }
  Detector detector;
  Detector::Conflicts last;
};

// Fails if two unordered accesses, at least one of which is a write, are not reported, or two reads
// are.
TEST_F(SimCheckDetector, ReportsUnorderedUses) {
  launch(0, {writes(kA)});
  EXPECT_EQ(launch(1, {reads(kA)}), 1U);
  EXPECT_EQ(last[0].kind, Conflict::unordered);
  EXPECT_EQ(last[0].before.stream, 0);
  EXPECT_TRUE(last[0].before.written);
  EXPECT_EQ(last[0].now.stream, 1);
  EXPECT_EQ(launch(2, {reads(kB)}), 0U);
  EXPECT_EQ(launch(3, {reads(kB)}), 0U);
  EXPECT_EQ(launch(4, {writes(kB)}), 2U);
  EXPECT_EQ(launch(5, {writes(kB)}), 3U);
}

// Fails if work that an event or a host wait orders is reported.
TEST_F(SimCheckDetector, OrderedUsesAreNotReported) {
  launch(0, {writes(kA)});
  detector.record(1, 0);
  detector.wait(1, 1);
  EXPECT_EQ(launch(1, {reads(kA)}), 0U);
  detector.host_waits_for_stream(1);
  EXPECT_EQ(launch(2, {writes(kA)}), 0U);
  EXPECT_EQ(launch(0, {reads(kA)}), 1U) << "stream 0 did not wait for stream 2";
}

// Fails if accesses to disjoint parts of a tensor conflict, or an access to one part makes the
// detector forget an earlier access to another part.
TEST_F(SimCheckDetector, DistinguishesPartsOfMemory) {
  launch(0, {touch(kA, true, 0x00, 0x40)});
  detector.record(1, 0);
  launch(0, {touch(kA, true, 0x40, 0x80)});
  detector.wait(1, 1);
  EXPECT_EQ(launch(1, {touch(kA, false, 0x00, 0x40)}), 0U);
  EXPECT_EQ(launch(1, {touch(kA, false, 0x80, 0x100)}), 0U);
  EXPECT_EQ(launch(1, {touch(kA, false, 0x20, 0x60)}), 1U);
}

// Fails if freeing memory that another stream may still use is not reported, or is reported before
// the memory is reused.
TEST_F(SimCheckDetector, ReportsMemoryFreedInUse) {
  launch(0, {writes(kA)});
  detector.record(1, 0);
  detector.wait(1, 1);
  launch(1, {reads(kA)});
  detector.free(kA);
  EXPECT_EQ(launch(0, {writes(kB)}), 0U) << "kB was allocated before the free";
  detector.allocate(kA, 0x80, 0);
  EXPECT_EQ(launch(0, {touch(kA, true, 0, 0x80)}), 1U);
  EXPECT_EQ(last[0].kind, Conflict::freed_in_use);
  EXPECT_EQ(last[0].before.stream, 1);
  EXPECT_EQ(launch(0, {touch(kA, true, 0, 0x80)}), 0U) << "a problem is reported once";
}

// Fails if memory that another stream used is reported although it was freed correctly.
TEST_F(SimCheckDetector, CorrectFreesAreNotReported) {
  const auto use_and_free = [&](auto between) {
    detector.allocate(kA, 0x100, 0);
    launch(1, {writes(kA)});
    between();
    detector.free(kA);
    detector.allocate(kA, 0x100, 0);
    return launch(0, {writes(kA)});
  };
  EXPECT_EQ(use_and_free([] {}), 1U);
  EXPECT_EQ(use_and_free([&] { detector.record_stream(kA, 1); }), 0U);
  EXPECT_EQ(use_and_free([&] { detector.host_waits_for_stream(1); }), 0U);
  EXPECT_EQ(use_and_free([&] {
              detector.record(1, 1);
              detector.wait(1, 0);
            }),
            0U);
  EXPECT_EQ(use_and_free([&] { detector.record_stream(kA, 2); }), 1U)
      << "recorded for a different stream";
}

// Fails if memory is reported although a wait between its free and its reuse orders the accesses.
TEST_F(SimCheckDetector, WaitBeforeReuseIsEnough) {
  launch(1, {writes(kA)});
  detector.free(kA);
  detector.record(1, 1);
  detector.wait(1, 0);
  detector.allocate(kA, 0x100, 0);
  EXPECT_EQ(launch(0, {writes(kA)}), 0U);
}

// Fails if memory is allocated on one stream and used on another without a report, although the
// first stream may still be using a freed tensor at the same address. A wait between the streams
// must prevent the report.
TEST_F(SimCheckDetector, ReportsUseBeforeFormerTensorIsDone) {
  for (const bool waits : {false, true}) {
    detector.host_waits_for_stream(0);
    launch(0, {reads(kA)});
    detector.free(kA);
    detector.allocate(kA, 0x100, 0);
    if (waits) {
      detector.record(1, 0);
      detector.wait(1, 1);
    }
    EXPECT_EQ(launch(1, {writes(kA)}), waits ? 0U : 1U);
    if (!waits) {
      EXPECT_EQ(last[0].kind, Conflict::reused);
      EXPECT_EQ(last[0].before.stream, 0);
    }
    EXPECT_EQ(launch(1, {writes(kA)}), 0U);  // reported once
    detector.host_waits_for_stream(1);
  }
  // Work on the same stream and work that the host has waited for cannot conflict.
  detector.host_waits_for_stream(0);
  launch(0, {writes(kB)});
  detector.free(kB);
  detector.allocate(kB, 0x100, 0);
  EXPECT_EQ(launch(0, {writes(kB)}), 0U);
  detector.host_waits_for_stream(0);
  detector.free(kB);
  detector.allocate(kB, 0x100, 0);
  EXPECT_EQ(launch(3, {writes(kB)}), 0U);
}

// Fails if captured work is checked at capture instead of at replay, or a replay that uses freed
// memory is not reported.
TEST_F(SimCheckDetector, GraphsUseMemoryAtReplay) {
  const int graph = 0;
  EXPECT_TRUE(detector.capture(&graph, kPool, 1, "captured", {reads(kA), writes(kB)}).empty());
  EXPECT_EQ(launch(2, {writes(kA)}), 0U);
  last = detector.replay(&graph, 1);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_STREQ(last[0].now.op, "captured");
  detector.host_waits_for_stream(1);
  detector.host_waits_for_stream(2);
  EXPECT_TRUE(detector.replay(&graph, 1).empty());
  detector.free(kA);
  last = detector.replay(&graph, 1);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].kind, Conflict::freed_capture);
  detector.allocate(kA, 0x100, 0);
  EXPECT_EQ(detector.replay(&graph, 1).size(), 1U) << "another tensor now owns this memory";
  detector.end_graph(&graph);
  EXPECT_TRUE(detector.replay(&graph, 1).empty());
}

// Fails if memory from the graph's private pool is reported as freed.
TEST_F(SimCheckDetector, GraphMayReleaseItsOwnMemory) {
  const int graph = 0;
  detector.allocate(kA, 0x100, 1, kPool);
  detector.capture(&graph, kPool, 1, "op", {writes(kA)});
  detector.free(kA);
  EXPECT_TRUE(detector.replay(&graph, 1).empty());
}

// Fails if memory that a later tensor of the same graph reused is reported as freed.
TEST_F(SimCheckDetector, GraphMayReuseItsMemory) {
  const int graph = 0;
  constexpr std::uintptr_t kSecond = kA + 0x100;
  detector.allocate(kA, 0x100, 1, kPool);
  detector.allocate(kSecond, 0x100, 1, kPool);
  detector.capture(&graph, kPool, 1, "op", {writes(kA), writes(kSecond)});
  detector.free(kA);
  detector.free(kSecond);
  detector.allocate(kA, 0x200, 1, kPool);
  detector.capture(&graph, kPool, 1, "op", {writes(kA)});
  detector.free(kA);
  detector.allocate(kA, 0x80, 1, kPool);
  detector.capture(&graph, kPool, 1, "op", {writes(kA)});
  EXPECT_TRUE(detector.replay(&graph, 1).empty());
}

// Fails if a replay that uses memory from another graph's pool is reported while the other graph
// exists, or is not reported after the other graph has been destroyed.
TEST_F(SimCheckDetector, ReportsMemoryOfAnEndedGraph) {
  const int maker = 0, user = 0;
  detector.allocate(kA, 0x100, 1, kPool);
  detector.capture(&maker, kPool, 1, "made", {writes(kA)});
  detector.capture(&user, kPool + 1, 1, "used", {reads(kA)});
  detector.free(kA);
  EXPECT_TRUE(detector.replay(&user, 1).empty());
  detector.end_graph(&maker);
  last = detector.replay(&user, 1);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].kind, Conflict::freed_capture);
}

// Fails if the history of many small writes is unbounded, or drops recent unordered accesses.
TEST_F(SimCheckDetector, HistoryIsBounded) {
  detector.allocate(kA, 1 << 20, 0);
  for (std::uintptr_t i = 0; i < 100; ++i) launch(0, {touch(kA, true, i * 16, i * 16 + 16)});
  EXPECT_EQ(launch(1, {touch(kA, false, 0, 16)}), 1U);
  for (std::uintptr_t i = 0; i < 20000; ++i) launch(0, {touch(kA, true, i * 16, i * 16 + 16)});
  EXPECT_GE(launch(1, {touch(kA, false, 0, 1 << 20)}), 100U);
  EXPECT_LE(last.size(), 512U);
}

// Fails if a report describes the wrong tensor, or a read replaces the record of the last write.
TEST_F(SimCheckDetector, DescribesMemory) {
  launch(0, {writes(kA)});
  launch(0, {touch(kA, false, 0, 0x10)});
  const auto memory = detector.memory_at(kA + 0x20);
  ASSERT_TRUE(memory && memory->last);
  EXPECT_TRUE(memory->last->written);
  EXPECT_FALSE(detector.memory_at(kB + 0x100));
  const auto [sum, largest] = detector.live_in(0, 0x10000, 1);
  EXPECT_EQ(sum, 0x200U);
  EXPECT_EQ(largest.size(), 1U);
}

// Fails under the thread sanitizer if events and launches from several threads race.
TEST_F(SimCheckDetector, IsThreadSafe) {
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> event{0};
  std::atomic<std::size_t> problems{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto mine = 0x10000 + static_cast<std::uintptr_t>(i) * 0x1000;
      for (int turn = 0; turn < 500; ++turn) {
        detector.allocate(mine, 0x100, i);
        problems += detector.launch(i, "op", {writes(mine)}).size();
        const auto number = ++event;
        detector.record(number, i);
        detector.wait(number, (i + 1) % 4);
        if (turn % 50 == 0) detector.host_waits_for_stream(i);
        detector.free(mine);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(problems, 0U);
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
