// The backend registry, and the accelerator that detection chooses. To register a backend, see
// sdk/registration.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel {

class Accelerator;
namespace sdk {
class Backend;
}

/// Result of probing one backend.
struct BackendVerdict {
  /// Name in the registry.
  std::string name;
  /// Whether the backend has at least one device.
  bool available = false;
  int device_count = 0;
  /// Source of the device count, or the reason why it is 0.
  std::string reason;
};

/// The accelerator that detection chose, with the reason.
struct Detection {
  std::string accelerator;  ///< name of the chosen backend; empty if none was chosen
  std::string reason;       ///< reason for the choice, or why there is none, in one sentence
  std::vector<BackendVerdict> backends;  ///< results in probing order
};

/// Return the names of all backends in probing order. Thread-safe.
ANYACCEL_API std::vector<std::string> registered_backends();

/// Probe all backends and return which one would be chosen, without choosing or initializing it.
/// Never throws: if get_accelerator() would throw, `accelerator` is empty and `reason` contains the
/// message. Thread-safe.
ANYACCEL_API Detection detect();

/// Return the result on which get_accelerator() based its choice. If nothing was chosen yet,
/// behaves like detect(). Never throws. Thread-safe.
ANYACCEL_API Detection detection();

/// Return the accelerator of this process. The first call chooses it: the one that `DS_ACCELERATOR`
/// names, otherwise the first backend in probing order that has devices. Later calls take at most 5
/// ns.
///
/// Throws `invalid_argument`, listing the known names, if `DS_ACCELERATOR` names an unknown
/// backend, and `unavailable` if the named one cannot run or if ANYACCEL_STRICT=1 forbids falling
/// back to the CPU. After a failed call, the next one tries again. Thread-safe.
inline Accelerator& get_accelerator();

/// Make `backend` the accelerator of this process, like DeepSpeed's set_accelerator. References
/// from earlier calls to get_accelerator() remain valid and keep their backend. Throws
/// `invalid_argument` if `backend` is null. Thread-safe.
ANYACCEL_API void set_accelerator(std::shared_ptr<sdk::Backend> backend);

/// Make the backend with this name the accelerator of this process. Throws the same errors as
/// get_accelerator() with `DS_ACCELERATOR=name`. Thread-safe.
ANYACCEL_API void set_accelerator(const std::string& name);

/// Switch this process back to an accelerator that an earlier call to get_accelerator() returned.
/// Thread-safe.
ANYACCEL_API void set_accelerator(Accelerator& accelerator);

/// Return the accelerator for a backend name without making it the accelerator of this process. If
/// the process's accelerator has that name, returns it; otherwise the first call creates an
/// accelerator, and later calls return the same one. Throws the same errors as
/// set_accelerator(name). Thread-safe.
ANYACCEL_API Accelerator& accelerator_of(const std::string& name);

/// Return whether the chosen accelerator's name is in AnyAccel's registry, like DeepSpeed's
/// is_current_accelerator_supported.
ANYACCEL_API bool is_current_accelerator_supported();

}  // namespace anyaccel
