// Declarations shared by the sources that implement Python backends.
#pragma once

#include <string>
#include <utility>

#include "anyaccel/sdk/backend.h"
#include "binding.h"

namespace anyaccel::python {

/// Returns false once the interpreter has shut down. C++ code may still run then, but must not
/// acquire the GIL.
bool python_runs() noexcept;

/// Owning handle to a Python object, usable on any thread. If the handle outlives the interpreter,
/// the object is leaked.
class Kept {
 public:
  explicit Kept(py::object object) : object_(object.release()) {}
  Kept(Kept&& other) noexcept : object_(std::exchange(other.object_, {})) {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept();
  /// Requires the GIL.
  py::handle get() const noexcept { return object_; }

 private:
  py::handle object_;
};

/// Converts a Python exception to an Error and throws it. `where` is the error's location if the
/// exception has none. Requires the GIL.
[[noreturn]] void throw_python_error(py::error_already_set& error, const std::string& where);

/// Calls a method of a Python object with the GIL held and passes the result to `take`. Throws
/// `unavailable` once the interpreter has shut down.
template <typename Take, typename... Arguments>
auto ask(const Kept& object, const std::string& where, const char* method, Take&& take,
         const Arguments&... arguments) {
  if (!python_runs())
    throw Error(ErrorCode::unavailable, where,
                {.what = "the backend's Python interpreter has exited"});
  const py::gil_scoped_acquire gil;
  try {
    return take(py::object(object.get().attr(method)(arguments...)));
  } catch (py::error_already_set& error) {
    throw_python_error(error, where);
  } catch (const py::cast_error&) {
    throw Error(ErrorCode::internal, where,
                {.what = std::string("the Python backend's ") + method +
                         "() returned a value of the wrong type"});
  }
}

inline constexpr auto take_nothing = [](const py::object&) {};
template <typename T>
inline constexpr auto take = [](const py::object& answer) { return answer.cast<T>(); };

/// Returns `traits` with fields replaced by the values in a dict. Throws `invalid_argument` for
/// unknown keys.
sdk::Traits traits_from(const py::dict& given, sdk::Traits traits);

// Conversions between the SDK's structs and Python objects. A Python backend may return a dict or a
// tuple instead of a struct.
DeviceProperties properties_from(const py::object& given, DeviceProperties known);
DtypeSupport support_from(const py::object& given);
MemoryInfo info_from(const py::object& given);
MemoryStats stats_from(const py::object& given);
py::dict stats_to(const MemoryStats& stats);

// Convert the events, graphs and op builders that a Python class returns. Objects from C++ backends
// are unwrapped.
std::shared_ptr<sdk::EventImpl> event_from(py::object made, const std::string& backend);
std::shared_ptr<sdk::GraphImpl> graph_from(py::object made, const std::string& backend);
/// Returns null for None.
std::shared_ptr<sdk::OpBuilder> builder_from(py::object made, const std::string& class_name);

void bind_backend_parts(py::module_& module);

/// Returns null for None, the underlying C++ allocator for a wrapped one, and otherwise an
/// allocator that calls the Python object. The result lives until the process exits.
c10::Allocator* host_allocator_from(py::object made, const std::string& backend);

using BackendBelow = py::class_<sdk::Backend, std::shared_ptr<sdk::Backend>>;
void bind_host_memory_below(py::module_& module, BackendBelow& below);

}  // namespace anyaccel::python
