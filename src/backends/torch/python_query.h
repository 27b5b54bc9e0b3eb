// Queries a vendor's Python package from C++.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace anyaccel::sdk {

/// The result of a Python function. If there is no value, `reason` says why.
struct PythonAnswer {
  std::optional<bool> value;
  std::string reason;
};

/// Calls `module.function()` if a Python interpreter runs in this process and has imported `module`
/// or can import it. Python is not needed at build time or run time: without an interpreter, the
/// result has no value. Takes the GIL for the call. Never throws; thread-safe.
PythonAnswer ask_python(const char* module, const char* function) noexcept;

/// The result of a Python function that returns two integers.
struct PythonPair {
  std::optional<std::pair<std::int64_t, std::int64_t>> value;
  std::string reason;
};

/// Calls `module.function(argument)`, like ask_python().
PythonPair ask_python_pair(const char* module, const char* function, int argument) noexcept;

}  // namespace anyaccel::sdk
