// Registration of backends, for backend authors.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel {

namespace sdk {
class Backend;
}

/// A registry entry for a backend.
struct BackendEntry {
  /// Name, capabilities and other data.
  sdk::Traits traits;
  /// Creates the backend. Called once, when the backend is chosen.
  std::function<std::shared_ptr<sdk::Backend>()> create;
  /// Counts devices. If it throws, the backend is treated as having no devices, and the exception's
  /// message is the reason. Default: `traits.probe`.
  std::function<sdk::Probe()> probe;
};

/// Register a backend. `DS_ACCELERATOR` then accepts its name. Throws `invalid_argument` if the
/// name is empty or taken, or if `create` is empty. An accelerator that was already chosen does not
/// change. Thread-safe.
ANYACCEL_API void register_backend(BackendEntry entry);

/// Return the entry of a registered backend, for example to base another backend on it. Throws
/// `invalid_argument`, with the known names, for an unknown name. Thread-safe.
ANYACCEL_API BackendEntry registered_backend(const std::string& name);

/// Register a function that finds more backends. `find` is called once, at the next query of the
/// registry, so the search runs only on demand. Exceptions thrown by `find` are logged as warnings.
/// Callers of the registry must not hold a lock that `find` takes, such as Python's GIL.
/// Thread-safe.
ANYACCEL_API void add_backend_finder(std::function<void()> find);

}  // namespace anyaccel
