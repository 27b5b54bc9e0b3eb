#include "base/log.h"

#include <gtest/gtest.h>

#include <string>

#include "unit/support/expect_error.h"

namespace anyaccel {
namespace {

std::string logged(LogLevel at, LogLevel level) {
  set_log_level(at);
  testing::internal::CaptureStderr();
  log(level, "hello");
  return testing::internal::GetCapturedStderr();
}

// Fails if messages below the log level are printed, or the format of a line changes.
TEST(Log, FiltersByLevel) {
  EXPECT_EQ(logged(LogLevel::warning, LogLevel::error), "anyaccel: error: hello\n");
  EXPECT_EQ(logged(LogLevel::warning, LogLevel::info), "");
  EXPECT_EQ(logged(LogLevel::debug, LogLevel::debug), "anyaccel: debug: hello\n");
}

// Fails if a message is logged twice for one key, or suppresses a message with another key.
TEST(Log, OnceForEachKey) {
  set_log_level(LogLevel::warning);
  testing::internal::CaptureStderr();
  log_once(LogLevel::warning, "a", "first");
  log_once(LogLevel::warning, "a", "second");
  log_once(LogLevel::warning, "b", "third");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "anyaccel: warning: first\nanyaccel: warning: third\n");
}

// Fails if the name of a level is not recognized, or an unknown name is accepted.
TEST(Log, ReadsLevels) {
  EXPECT_EQ(parse_log_level("error"), LogLevel::error);
  EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
  EXPECT_ERROR(parse_log_level("loud"), invalid_argument, "warning");
}

}  // namespace
}  // namespace anyaccel
