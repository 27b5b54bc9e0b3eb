// libanyaccel_sim.so: loading the library starts the simulator with the options in the SIM_*
// variables. Use it in programs that do not call AnyAccel: `torch.ops.load_library(path)` or
// `ctypes.CDLL(path)`. Load it before `import torch` if torch inspects the device type during the
// import.
#include <cstdlib>
#include <string>

#include "anyaccel/export.h"
#include "anyaccel/sim.h"
#include "base/log.h"

namespace {

/// Returns the reason why the simulator did not start, or an empty string if it did. Does not
/// throw, because an exception would terminate the process that loads the library.
const std::string& failure() {
  static const std::string text = [] {
    try {
      const auto options = anyaccel::sim::options_from_environment();
      // A variable such as CUDA_VISIBLE_DEVICES may hide all devices.
      if (!options.visible || !options.visible->empty()) anyaccel::sim::install(options);
      return std::string();
    } catch (const std::exception& error) {
      anyaccel::log(anyaccel::LogLevel::error, error.what());
      // In `anyaccel sim run`, the program must not run without the simulator.
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

/// Returns null if the simulator runs, otherwise the reason why it does not.
const char* anyaccel_sim_failure() { return failure().empty() ? nullptr : failure().c_str(); }
}
