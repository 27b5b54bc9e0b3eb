#include "anyaccel/llm/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace anyaccel::llm {

namespace {

/// Of a child: 0 when it came here with the flag set.
void end_with_flag(const StopSignal& stop) { ::_exit(*stop.flag() ? 0 : 1); }

// Fails when a signal that a launcher passes on, after the group had it, ends the process that was to end in order.
TEST(StopSignal, TakesASignalThatComesTwoWaysAsOne) {
  const auto twice = [] {
    const StopSignal stop;
    for (const int signal : {SIGINT, SIGINT, SIGTERM, SIGTERM}) ::raise(signal);
    end_with_flag(stop);
  };
  EXPECT_EXIT(twice(), testing::ExitedWithCode(0), "");
}

// Fails when a program that does not come to look at its flag cannot be interrupted any more.
TEST(StopSignal, EndsTheProcessWhenItComesAgain) {
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

// Fails when a dialogue's second interrupted answer ends the dialogue.
TEST(StopSignal, BeginsAnew) {
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

// Fails when nohup's ignored signal is taken all the same, or SIGTERM that was not to be watched.
TEST(StopSignal, LeavesWhatIsNotItsOwn) {
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
