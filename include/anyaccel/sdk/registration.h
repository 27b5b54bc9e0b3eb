// Backends for the registry: how an author adds one.
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

/// A backend for the registry.
struct BackendEntry {
  sdk::Traits traits;
  /// Creates the backend. Called once, when the backend is chosen.
  std::function<std::shared_ptr<sdk::Backend>()> create;
  /// Counts devices. An exception counts as no device, with its message as the reason. Default:
  /// `traits.probe`.
  std::function<sdk::Probe()> probe;
};

/// Adds a backend. Any name works, `DS_ACCELERATOR` then accepts it. `invalid_argument` when the
/// name is taken or empty. Thread-safe; has no effect on an accelerator that was chosen already.
ANYACCEL_API void register_backend(BackendEntry entry);

/// Returns the entry of a registered backend, for a backend that builds on it. Throws
/// `invalid_argument` with the known names if the name is unknown. Thread-safe.
ANYACCEL_API BackendEntry registered_backend(const std::string& name);

/// Calls `find` once, before the next query of the registry, so that a search for more backends
/// runs only when it is needed. An exception of `find` is logged as a warning. Callers of the
/// registry must not hold a lock that `find` takes, such as Python's GIL. Thread-safe.
ANYACCEL_API void add_backend_finder(std::function<void()> find);

}  // namespace anyaccel
