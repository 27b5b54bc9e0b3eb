// Selects a job's accelerator without torch, from the backends' traits and the plugins' text files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "anyaccel/sdk/traits.h"

namespace anyaccel::launch {

struct JobAccelerator {
  sdk::Traits traits;
  bool on_cores =
      false;  ///< whether ranks compute on the host's cores; the devices are then NUMA nodes
  /// Number of devices on this host; nullopt if torch is needed to count them, or if ranks compute
  /// on the host's cores.
  std::optional<int> devices;
  std::string reason;  ///< one sentence that explains the selection
};

/// Returns the accelerator called `named` or, if `named` is empty, the first one in the registry's
/// order that has devices on this machine. Throws `invalid_argument` for an unknown name, and
/// `unavailable` if the accelerator has no devices or if ANYACCEL_STRICT forbids the fallback to
/// the host. If `elsewhere` is true, ranks run on other hosts, so an accelerator without devices on
/// this machine is not an error.
JobAccelerator find_accelerator(const std::optional<std::string>& named, bool elsewhere = false);

/// Returns this host's slots: the entries of the accelerator's visible-devices variable or, if it
/// is unset, device numbers. Do not call it for accelerators that compute on the host's cores.
/// Throws `unavailable` if the devices cannot be counted.
std::vector<std::string> visible_slots(const JobAccelerator& accelerator);

/// Converts the slots in a host file to device names. A number is an index into the accelerator's
/// visible-devices variable, if that is set. Throws `invalid_argument` if an index is out of range.
std::vector<std::string> visible_names(const JobAccelerator& accelerator,
                                       const std::vector<std::string>& slots);

}  // namespace anyaccel::launch
