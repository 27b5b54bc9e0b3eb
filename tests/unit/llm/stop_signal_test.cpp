#include "anyaccel/llm/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

namespace anyaccel::llm {

namespace {

/// Exits with status 0 if the flag is set. Call it in a child process.
void end_with_flag(const StopSignal& stop) { ::_exit(*stop.flag() ? 0 : 1); }

// Fails if a duplicate signal kills a process that is shutting down gracefully. A signal may be
// sent to the process group and also be forwarded by a launcher.
TEST(StopSignal, DuplicateSignalCountsOnce) {
  const auto twice = [] {
    const StopSignal stop;
    for (const int signal : {SIGINT, SIGINT, SIGTERM, SIGTERM}) ::raise(signal);
    end_with_flag(stop);
  };
  EXPECT_EXIT(twice(), testing::ExitedWithCode(0), "");
}

// Fails if a program that never checks the flag cannot be interrupted.
TEST(StopSignal, SecondSignalEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto again = [signal] {
      const StopSignal stop;
      ::raise(signal);
      ::usleep(1'100'000);
      ::raise(signal);
      end_with_flag(stop);
    };
    EXPECT_EXIT(again(), testing::KilledBySignal(signal), "");
  }
}

// Fails if a blocked process, which cannot check the flag, keeps running after the time limit.
TEST(StopSignal, EndsABlockedProcess) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto blocked = [signal] {
      const StopSignal stop(StopSignal::Watch::all, StopSignal::kShort);
      int ends[2];
      ::alarm(10);
      if (::pipe(ends) != 0) ::_exit(2);
      ::raise(signal);
      char byte = 0;
      ::_exit(::read(ends[0], &byte, 1) == 1 ? 3 : 4);
    };
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EXIT(blocked(), testing::KilledBySignal(signal), "");
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
  }
}

// Fails if the time limit terminates a process that handled the signal in time.
TEST(StopSignal, TimeLimitEndsWithTheObject) {
  const auto in_time = [] {
    {
      StopSignal stop(StopSignal::Watch::all, StopSignal::Patience(50));
      ::raise(SIGINT);
      if (!*stop.flag()) ::_exit(2);
      stop.again();
      ::usleep(100'000);
      ::raise(SIGINT);
      if (!*stop.flag()) ::_exit(3);
    }
    ::usleep(100'000);
    ::_exit(0);
  };
  EXPECT_EXIT(in_time(), testing::ExitedWithCode(0), "");
}

// Fails if interrupting the second answer in a chat ends the chat instead of the answer.
TEST(StopSignal, CanBeReset) {
  const auto renewed = [] {
    StopSignal stop;
    ::raise(SIGINT);
    const bool first = *stop.flag();
    stop.again();
    const bool forgotten = !*stop.flag();
    ::usleep(1'100'000);
    ::raise(SIGINT);
    if (!first || !forgotten) ::_exit(2);
    end_with_flag(stop);
  };
  EXPECT_EXIT(renewed(), testing::ExitedWithCode(0), "");
}

// Fails if a signal is handled although it was ignored before, as under nohup. Also fails if
// SIGTERM is handled without being requested.
TEST(StopSignal, IgnoresOtherSignals) {
  const auto ignored = [] {
    ::signal(SIGINT, SIG_IGN);
    const StopSignal stop;
    ::raise(SIGINT);
    ::_exit(*stop.flag() ? 1 : 0);
  };
  EXPECT_EXIT(ignored(), testing::ExitedWithCode(0), "");
  const auto unwatched = [] {
    const StopSignal stop(StopSignal::Watch::interrupt);
    ::raise(SIGTERM);
    end_with_flag(stop);
  };
  EXPECT_EXIT(unwatched(), testing::KilledBySignal(SIGTERM), "");
}

}  // namespace

}  // namespace anyaccel::llm
