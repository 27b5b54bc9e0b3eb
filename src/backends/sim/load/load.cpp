// libanyaccel_sim.so: opening it starts the simulator with the SIM_* variables. For programs that
// do not call AnyAccel: `torch.ops.load_library(path)` or `ctypes.CDLL(path)`, before `import
// torch` where torch looks at the type while it starts.
#include <cstdlib>
#include <string>

#include "anyaccel/export.h"
#include "anyaccel/sim.h"
#include "base/log.h"

namespace {

/// Why it did not start; empty when it did. An exception would end the process that opens the
/// library.
const std::string& failure() {
  static const std::string text = [] {
    try {
      anyaccel::sim::install(anyaccel::sim::options_from_environment());
      return std::string();
    } catch (const std::exception& error) {
      anyaccel::log(anyaccel::LogLevel::error, error.what());
      // `anyaccel sim run`: the program was to run on this and on nothing else.
      if (std::getenv("ANYACCEL_SIM_LIBRARY") != nullptr) std::_Exit(1);
      return std::string(error.what());
    }
  }();
  return text;
}

[[maybe_unused]] const bool started = failure().empty();

}  // namespace

extern "C" {

ANYACCEL_API const char* anyaccel_sim_failure();

/// Null when the simulator runs, else why not.
const char* anyaccel_sim_failure() { return failure().empty() ? nullptr : failure().c_str(); }
}
