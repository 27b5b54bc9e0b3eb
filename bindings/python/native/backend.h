// Backends written in Python: what their sources share.
#pragma once

#include <string>
#include <utility>

#include "anyaccel/sdk/backend.h"
#include "binding.h"

namespace anyaccel::python {

/// False from the end of the interpreter on: C++ may run longer, and must not ask for the GIL then.
bool python_runs() noexcept;

/// A Python object that C++ keeps, on any thread. What is kept at the interpreter's end is leaked: nobody could free it then.
class Kept {
 public:
  explicit Kept(py::object object) : object_(object.release()) {}
  Kept(Kept&& other) noexcept : object_(std::exchange(other.object_, {})) {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept();
  /// With the GIL held.
  py::handle get() const noexcept { return object_; }

 private:
  py::handle object_;
};

/// What Python raised, as an Error of `where`; with the GIL held.
[[noreturn]] void throw_python_error(py::error_already_set& error, const std::string& where);

/// Calls a method of a Python object with the GIL and gives its answer to `take`. After the interpreter's end `unavailable`.
template <typename Take, typename... Arguments>
auto ask(const Kept& object, const std::string& where, const char* method, Take&& take, const Arguments&... arguments) {
  if (!python_runs())
    throw Error(ErrorCode::unavailable, where, {.what = "the Python interpreter that its backend runs in has ended"});
  const py::gil_scoped_acquire gil;
  try {
    return take(py::object(object.get().attr(method)(arguments...)));
  } catch (py::error_already_set& error) {
    throw_python_error(error, where);
  } catch (const py::cast_error&) {
    throw Error(ErrorCode::internal, where,
                {.what = std::string("the Python backend's ") + method + "() gave another type"});
  }
}

inline constexpr auto take_nothing = [](const py::object&) {};
template <typename T>
inline constexpr auto take = [](const py::object& answer) { return answer.cast<T>(); };

/// Traits from a dict over others; `invalid_argument` for a key that is none.
sdk::Traits traits_from(const py::dict& given, sdk::Traits traits);

// Values between the sdk and Python, where a backend may give a dict or a tuple.
DeviceProperties properties_from(const py::object& given, DeviceProperties known);
DtypeSupport support_from(const py::object& given);
MemoryInfo info_from(const py::object& given);
MemoryStats stats_from(const py::object& given);
py::dict stats_to(const MemoryStats& stats);

// Parts that a Python class makes; one that came from a backend of C++ is that again.
std::shared_ptr<sdk::EventImpl> event_from(py::object made, const std::string& backend);
std::shared_ptr<sdk::GraphImpl> graph_from(py::object made, const std::string& backend);
/// Null for None.
std::shared_ptr<sdk::OpBuilder> builder_from(py::object made, const std::string& class_name);

void bind_backend_parts(py::module_& module);

/// Null for None, the allocator itself for one of C++, else one that asks the object. It lives as long as the process.
c10::Allocator* host_allocator_from(py::object made, const std::string& backend);

using BackendBelow = py::class_<sdk::Backend, std::shared_ptr<sdk::Backend>>;
void bind_host_memory_below(py::module_& module, BackendBelow& below);

}  // namespace anyaccel::python
