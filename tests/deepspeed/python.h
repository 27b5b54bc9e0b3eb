// Calls into Python from any thread. Python exceptions are converted to C++ exceptions that do not
// refer to Python objects.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <stdexcept>
#include <string>

#include "anyaccel/error.h"

namespace anyaccel::deepspeed {

namespace py = pybind11;

/// Runs `body` with the GIL held. `body` must not return a Python object. NotImplementedError
/// becomes an Error with code `unsupported`.
template <typename Body>
auto in_python(const std::string& where, Body&& body) {
  const py::gil_scoped_acquire gil;
  try {
    return body();
  } catch (py::error_already_set& error) {
    const std::string text = error.what();
    const auto line = where + ": " + text.substr(0, text.find('\n'));
    if (error.matches(PyExc_NotImplementedError))
      throw Error(ErrorCode::unsupported, where, {.what = line});
    throw std::runtime_error(line);
  } catch (const py::cast_error&) {
    throw std::runtime_error(where + " does not have the type that the interface declares");
  }
}

/// Converts a value that the accelerator returned to T. If the value is None or has a different
/// type, throws an error whose message contains `what`.
template <typename T>
T answer(const py::object& value, const std::string& what) {
  const std::string got = py::repr(value);
  if (value.is_none()) throw std::runtime_error(what + " is None");
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, int>)
    if (!py::isinstance<py::int_>(value))
      throw std::runtime_error(what + " is " + got + ", not an int");
  if constexpr (std::is_same_v<T, bool>)
    if (!py::isinstance<py::bool_>(value))
      throw std::runtime_error(what + " is " + got + ", not a bool");
  return value.cast<T>();
}

}  // namespace anyaccel::deepspeed
