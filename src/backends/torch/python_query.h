// Queries a vendor's Python package from C++.
#pragma once

#include <optional>
#include <string>

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

}  // namespace anyaccel::sdk
