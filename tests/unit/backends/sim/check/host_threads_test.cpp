#include "backends/sim/check/host_threads.h"

#include <gtest/gtest.h>

#include <thread>

#include "backends/sim/check/detector.h"

namespace anyaccel::backends::sim::checking {
namespace {

constexpr std::uintptr_t kShared = 0x1000;

Touch shared_touch(bool written) {
  Touch touch{.storage = kShared, .bytes = 0x100, .region = {}, .written = written};
  touch.region.low = kShared;
  touch.region.high = kShared + 0x100;
  return touch;
}

/// Two threads that use the same memory: a program thread, and the test's own thread.
struct SimCheckHostThreads : ::testing::Test {
  Detector detector;
  int lock = 0;

  SimCheckHostThreads() { detector.allocate(kShared, 0x100, 0); }

  template <typename Work>
  void run(Work work, bool adopted = true) {
    std::thread([&, inherited = start_of_child()] {
      if (adopted) adopt(*inherited);
      work();
    }).join();
  }
  Detector::Conflicts launch(StreamId stream, bool written = true) {
    return detector.launch(stream, "op", {shared_touch(written)});
  }
};

/// Frees memory that two streams have used when the thread ends, after the thread's clock is
/// destroyed.
struct FreesAtEnd {
  Detector* detector = nullptr;
  bool* result = nullptr;
  ~FreesAtEnd() {
    if (detector == nullptr) return;
    *result = host_thread().kind == ThreadKind::open && host_thread().id == -1;
    detector->free(kShared, nullptr);
  }
};

// Fails if the destructor of a static or thread_local tensor uses the clock of its thread, which
// has been destroyed.
TEST_F(SimCheckHostThreads, MemoryMayBeFreedAfterTheClockOfAThread) {
  bool open = false;
  std::thread([&, inherited = start_of_child()] {
    static thread_local FreesAtEnd last;  // created before the clock, so destroyed after it
    last.detector = &detector;
    last.result = &open;
    adopt(*inherited);
    launch(0);
    launch(1);
  }).join();
  EXPECT_TRUE(open);
}

// Fails if two threads that do not synchronize may launch conflicting work on one stream.
TEST_F(SimCheckHostThreads, ReportsUnorderedLaunches) {
  EXPECT_TRUE(launch(0).empty());
  run([&] { EXPECT_TRUE(launch(0, /*written=*/false).empty()); });  // the start orders them
  EXPECT_TRUE(launch(0, /*written=*/false).empty());                // two reads
  const auto found = launch(0);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Conflict::unordered_threads);
}

// Fails if releasing and acquiring a lock does not order the launches before the release, or also
// orders launches after the release.
TEST_F(SimCheckHostThreads, LocksOrderLaunches) {
  run([&] {
    launch(0);
    release_to(&lock);
  });
  acquire_from(&lock);
  EXPECT_TRUE(launch(0).empty());
  run([&] {
    release_to(&lock);
    launch(0);
  });
  acquire_from(&lock);
  EXPECT_EQ(launch(0).size(), 1U);
}

// Fails if a wait by one thread orders launches of a thread that has not synchronized with it.
TEST_F(SimCheckHostThreads, WaitsPassThroughLocks) {
  run([&] {
    launch(1);
    detector.host_waits_for_stream(1);
  });
  const auto found = launch(0);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Conflict::unordered);
  run([&] {
    acquire_from(&lock);
    detector.host_waits_for_stream(0);
    launch(1);
    detector.host_waits_for_stream(1);
    release_to(&lock);
  });
  acquire_from(&lock);
  EXPECT_TRUE(launch(0).empty());
}

// Fails if joining a thread does not order the thread's launches.
TEST_F(SimCheckHostThreads, JoinsOrderLaunches) {
  pthread_t thread{};
  std::thread child([&, inherited = start_of_child()] {
    adopt(*inherited);
    launch(0);
  });
  thread = child.native_handle();
  child.join();
  acquire_from(end_of(thread));
  EXPECT_TRUE(launch(0).empty());
}

// Fails if threads whose synchronization is not observed are reported.
TEST_F(SimCheckHostThreads, OpenThreadsAreOrdered) {
  run(
      [&] {
        launch(1);
        detector.host_waits_for_stream(1);
      },
      /*adopted=*/false);
  EXPECT_TRUE(launch(0).empty());
  run([&] { launch(0); }, /*adopted=*/false);
  EXPECT_TRUE(launch(0).empty());
}

// Fails if a mutex in a library orders two program threads, or does not order a library thread.
TEST_F(SimCheckHostThreads, LibraryMutexesOrderLibraryThreads) {
  run([&] {
    launch(0);
    release_library_mutex(&lock);
  });
  acquire_library_mutex(&lock);
  EXPECT_EQ(launch(0).size(), 1U);
  release_library_mutex(&lock);
  track_threads();
  run(
      [&] {
        ::pthread_setname_np(::pthread_self(), "pt_autograd_0");
        acquire_library_mutex(&lock);
        EXPECT_EQ(host_thread().kind, ThreadKind::library);
        EXPECT_TRUE(launch(0).empty());
        release_library_mutex(&lock);
      },
      /*adopted=*/false);
  acquire_library_mutex(&lock);
  EXPECT_TRUE(launch(0).empty());
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
