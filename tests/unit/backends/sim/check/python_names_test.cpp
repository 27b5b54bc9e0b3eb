// Tests programs without Python. tests/e2e/sim_check_test.py tests programs with Python.
#include "backends/sim/check/python_names.h"

#include <gtest/gtest.h>

namespace anyaccel::backends::sim::checking {
namespace {

// Fails if a program without Python searches for Python again on every op.
TEST(SimCheckPython, IsSearchedOnce) {
  EXPECT_TRUE(watch_python("sim", {.refused = [](const char*) { ADD_FAILURE(); },
                                   .uncaught = [](int) { ADD_FAILURE(); }}));
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
