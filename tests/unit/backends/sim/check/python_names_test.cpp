// In a program without Python; tests/e2e/sim_check_test.py has one with.
#include "backends/sim/check/python_names.h"

#include <gtest/gtest.h>

namespace anyaccel::backends::sim::checking {
namespace {

// Fails when a program without Python asks again with every op.
TEST(SimCheckPython, NothingToWatchWithoutIt) {
  EXPECT_TRUE(watch_python(
      "sim", [](const char*) { ADD_FAILURE(); }, [](int) { ADD_FAILURE(); }));
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
