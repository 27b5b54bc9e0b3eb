// Questions to a vendor's Python package, from C++.
#pragma once

#include <optional>
#include <string>

namespace anyaccel::sdk {

/// What a function of a Python module answered; no value: `reason` says why there is none.
struct PythonAnswer {
  std::optional<bool> value;
  std::string reason;
};

/// Calls `module.function()` when a Python interpreter runs in this process and has imported
/// `module` or can import it. Needs no Python at build time or run time: without an interpreter
/// there is no answer. Takes the GIL for the call. Never throws; thread-safe.
PythonAnswer ask_python(const char* module, const char* function) noexcept;

}  // namespace anyaccel::sdk
