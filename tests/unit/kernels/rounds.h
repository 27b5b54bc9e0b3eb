// The number of random cases of a test.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace op_tests {

/// Returns `count`, or a fraction of it under emulation, which is slow: ANYACCEL_TEST_DIVISOR
/// divides the numbers of random cases.
inline int rounds(int count) {
  static const int divisor = [] {
    const char* text = std::getenv("ANYACCEL_TEST_DIVISOR");
    return std::max(1, text == nullptr ? 1 : std::atoi(text));
  }();
  return std::max(1, count / divisor);
}

}  // namespace op_tests
