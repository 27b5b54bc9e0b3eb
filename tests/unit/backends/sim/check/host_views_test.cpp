// Tests the protection of host memory while a copy is pending, and the fault handler that reports
// accesses to protected memory.
#include "backends/sim/check/host_views.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "backends/sim/check/fault_handler.h"
#include "backends/sim/page_size.h"

namespace anyaccel::backends::sim::checking {
namespace {

const std::size_t kPage = page_size();

struct SimCheckHostViews : testing::Test {
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the fault handler calls functions that the thread sanitizer forbids";
#endif
  }
  SimCheckHostViews() {
    pages = static_cast<char*>(
        ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    now = this;
    handle_faults([](std::uintptr_t address, bool writes) {
      const auto base = reinterpret_cast<std::uintptr_t>(now->pages);
      if (address < base || address >= base + 4 * kPage) return false;
      ++(writes ? now->early_writes : now->early_reads);
      now->copy = now->views.touched(address, writes);
      return true;
    });
  }
  ~SimCheckHostViews() override { ::munmap(pages, 4 * kPage); }

  Use copy_of(std::size_t from, std::size_t to, bool written) const {
    const auto base = reinterpret_cast<std::uintptr_t>(pages);
    return {.op = "copy",
            .stream = 7,
            .time = 1,
            .written = written,
            .region = {.low = base + from, .high = base + to}};
  }
  char read(std::size_t at) const { return static_cast<volatile char*>(pages)[at]; }
  void write(std::size_t at) const { static_cast<volatile char*>(pages)[at] = 1; }

  static inline SimCheckHostViews* now = nullptr;
  char* pages = nullptr;
  HostViews views;
  std::optional<Use> copy;
  int early_reads = 0, early_writes = 0;
};

// Fails if an access to the destination of a pending copy is not reported exactly once, or the
// program cannot continue after the access.
TEST_F(SimCheckHostViews, EarlyReadIsReportedOnce) {
  views.close(copy_of(0, 100, /*written=*/true), /*whole=*/true);
  read(8);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->stream, 7);
  write(8);
  EXPECT_EQ(early_reads + early_writes, 1);
}

// Fails if reading from the source of a pending copy is reported, or writing to the source is not.
TEST_F(SimCheckHostViews, SourceOfACopyMayBeRead) {
  views.close(copy_of(0, kPage, /*written=*/false), true);
  read(8);
  EXPECT_EQ(early_reads, 0);
  write(8);
  EXPECT_EQ(early_writes, 1);
  EXPECT_TRUE(copy);
}

// Fails if a host wait does not unprotect the memory of completed copies, or unprotects other
// memory.
TEST_F(SimCheckHostViews, WaitUnprotects) {
  Detector detector;
  detector.launch(7, "copy", {});
  auto later = copy_of(kPage, 2 * kPage, true);
  later.time = 2;
  views.close(copy_of(0, kPage, true), true);
  views.close(later, true);
  detector.host_waits_for_stream(7);
  views.open_known(detector);
  read(0);
  EXPECT_EQ(early_reads, 0);
  read(kPage);
  EXPECT_EQ(early_reads, 1);
}

// Fails if protecting a part of a buffer also protects the rest of its first and last pages.
TEST_F(SimCheckHostViews, RestOfThePageIsUnprotected) {
  views.close(copy_of(100, 2 * kPage + 100, true), /*whole=*/false);
  read(0);
  read(2 * kPage + 200);
  EXPECT_EQ(early_reads, 0);
  read(kPage);
  EXPECT_EQ(early_reads, 1);
}

// Fails if an access to a part of a buffer by an op is not found on pages that the part shares, is
// found for other parts, or is reported twice.
TEST_F(SimCheckHostViews, PartIsFoundByItsBytes) {
  const auto base = reinterpret_cast<std::uintptr_t>(pages);
  const auto region = [base](std::size_t from, std::size_t to) {
    return Region{.low = base + from, .high = base + to};
  };
  EXPECT_FALSE(views.has_parts());
  views.close(copy_of(100, 200, /*written=*/true), /*whole=*/false);
  EXPECT_TRUE(views.has_parts());
  EXPECT_FALSE(views.touched(region(0, 100), true));
  EXPECT_FALSE(views.touched(region(200, 300), true));
  EXPECT_TRUE(views.touched(region(199, 201), false));
  EXPECT_FALSE(views.touched(region(100, 200), false));
  EXPECT_FALSE(views.has_parts());
  views.close(copy_of(100, 200, /*written=*/false), false);
  EXPECT_FALSE(views.touched(region(100, 200), false));
  EXPECT_TRUE(views.touched(region(100, 200), true));
}

// Fails if a part is still guarded after the host has waited for the copy, or after the allocator
// handed out the memory again.
TEST_F(SimCheckHostViews, PartIsForgotten) {
  Detector detector;
  detector.launch(7, "copy", {});
  views.close(copy_of(100, 200, true), false);
  detector.host_waits_for_stream(7);
  views.open_known(detector);
  EXPECT_FALSE(views.has_parts());
  views.close(copy_of(100, 200, true), false);
  views.open(reinterpret_cast<std::uintptr_t>(pages), kPage);
  EXPECT_FALSE(views.has_parts());
}

// Fails if a second view of a part is not guarded, or stays guarded after it was forgotten.
TEST_F(SimCheckHostViews, SecondViewIsGuarded) {
  const auto base = reinterpret_cast<std::uintptr_t>(pages);
  EXPECT_FALSE(views.in_second_view(base + 3 * kPage));
  views.close(copy_of(100, 200, true), false);
  EXPECT_TRUE(views.covered(base + 120, 10));
  EXPECT_FALSE(views.covered(base + 120, 100));
  const auto view = base + 3 * kPage + 120;  // these pages take the place of the second mapping
  views.guard(view, base + 120, 10);
  EXPECT_TRUE(views.in_second_view(view));
  EXPECT_FALSE(views.in_second_view(base));
  read(3 * kPage + 120);
  EXPECT_EQ(early_reads, 1);
  ASSERT_TRUE(copy);
  views.guard(view, base + 120, 10);
  views.forget(view);
  read(3 * kPage + 120);
  EXPECT_EQ(early_reads, 1);
}

// Fails if memory is still protected when the allocator hands it out again.
TEST_F(SimCheckHostViews, NewOwnerFindsItUnprotected) {
  views.close(copy_of(0, 100, true), true);
  views.open(reinterpret_cast<std::uintptr_t>(pages), kPage);
  write(0);
  EXPECT_EQ(early_writes, 0);
}

// Fails if completing one of two copies on a buffer also removes the protection of the other.
TEST_F(SimCheckHostViews, TwoCopiesOfOneBuffer) {
  Detector detector;
  detector.launch(7, "copy", {});
  auto other = copy_of(0, kPage, true);
  other.stream = 8;
  views.close(other, true);
  views.close(copy_of(0, kPage, false), true);
  detector.host_waits_for_stream(7);
  views.open_known(detector);
  read(0);
  EXPECT_EQ(early_reads, 1);
}

// Fails if a signal sent by raise() or kill() is mistaken for an access to protected memory. The
// program would then continue.
TEST_F(SimCheckHostViews, SentSignalsEndTheProgram) {
#ifdef __SANITIZE_ADDRESS__
  const testing::ExitedWithCode died(1);
#else
  const testing::KilledBySignal died(SIGSEGV);
#endif
  EXPECT_EXIT(::raise(SIGSEGV), died, "");
}

// Fails if a fault outside the protected memory is swallowed.
TEST_F(SimCheckHostViews, OtherFaultsEndTheProgram) {
#ifdef __SANITIZE_ADDRESS__
  const testing::ExitedWithCode died(1);  // the sanitizer's handler was installed before ours
#else
  const testing::KilledBySignal died(SIGSEGV);
#endif
  auto* address = reinterpret_cast<volatile int*>(pages);
  EXPECT_EXIT(
      {
        ::mprotect(pages, kPage, PROT_NONE);
        now->pages += kPage;  // the handler no longer treats these pages as protected
        *address = 1;
      },
      died, "");
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
