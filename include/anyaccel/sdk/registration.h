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

/// How a backend is offered to the registry.
struct BackendEntry {
  sdk::Traits traits;
  /// Makes the backend. Called once, when it is chosen.
  std::function<std::shared_ptr<sdk::Backend>()> create;
  /// Looks for devices; noexcept in spirit: an exception is kept as the reason. None: `traits.probe`.
  std::function<sdk::Probe()> probe;
};

/// Adds a backend. Any name works, `DS_ACCELERATOR` then accepts it. `invalid_argument` when the name is
/// taken or empty. Thread-safe; has no effect on an accelerator that was chosen already.
ANYACCEL_API void register_backend(BackendEntry entry);

/// The entry of a registered backend, for one that is made over another: its traits, and create() for an object of its own.
/// `invalid_argument` for an unknown name, with the known ones. Thread-safe.
ANYACCEL_API BackendEntry registered_backend(const std::string& name);

/// Has `find` called once, before the registry is next asked what there is: for what registers backends of its own and should not
/// look for them before somebody asks. What it throws is a warning. Thread-safe; a language's lock that `find` takes may not be held
/// by who asks the registry.
ANYACCEL_API void add_backend_finder(std::function<void()> find);

}  // namespace anyaccel
