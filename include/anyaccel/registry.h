// The registry: which backends there are, which one was chosen and why. sdk/registration.h adds
// backends.
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

/// What detection found out about one backend.
struct BackendVerdict {
  std::string name;
  bool available = false;
  int device_count = 0;
  std::string reason;
};

/// Which accelerator this process uses and how that came about.
struct Detection {
  std::string accelerator;               ///< name of the chosen backend; empty when none was chosen
  std::string reason;                    ///< one sentence
  std::vector<BackendVerdict> backends;  ///< in order of probing
};

/// Names of all backends in the order of probing. Thread-safe.
ANYACCEL_API std::vector<std::string> registered_backends();

/// Probes all backends and says which would be chosen, without choosing or starting it. Never
/// throws: where get_accelerator() would throw, `accelerator` is empty and `reason` has the
/// message. Thread-safe.
ANYACCEL_API Detection detect();

/// What get_accelerator() went by; probes first when nothing was chosen yet. Never throws.
/// Thread-safe.
ANYACCEL_API Detection detection();

/// The accelerator of this process; chosen at the first call, as `DS_ACCELERATOR` says or by
/// probing. Throws `invalid_argument` for an unknown name (with the known ones), `unavailable` for
/// a named accelerator that cannot run (with its reason), or, with ANYACCEL_STRICT=1, instead of
/// falling to the CPU. A call after a failed one tries again. Thread-safe; at most 5 ns once
/// chosen.
inline Accelerator& get_accelerator();

/// Makes `backend` the accelerator of this process. References from earlier calls stay valid and
/// keep their backend. `invalid_argument` when null. Thread-safe. As DeepSpeed's set_accelerator.
ANYACCEL_API void set_accelerator(std::shared_ptr<sdk::Backend> backend);

/// The same for a registered name. Throws as get_accelerator() does for `DS_ACCELERATOR=name`.
ANYACCEL_API void set_accelerator(const std::string& name);

/// Makes an accelerator that get_accelerator() gave before the one of this process again.
/// Thread-safe.
ANYACCEL_API void set_accelerator(Accelerator& accelerator);

/// The accelerator of a registered name, without making it the one of this process: the chosen one
/// where it has that name, else one that is made at the first call and kept. Throws as
/// set_accelerator(name) does. Thread-safe.
ANYACCEL_API Accelerator& accelerator_of(const std::string& name);

/// True when the chosen accelerator came from AnyAccel's own registry. As DeepSpeed's
/// is_current_accelerator_supported.
ANYACCEL_API bool is_current_accelerator_supported();

}  // namespace anyaccel
