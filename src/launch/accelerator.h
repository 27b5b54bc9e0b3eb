// Which accelerator a job runs on, found without torch: from the traits of backends and the text
// files of plugins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "anyaccel/sdk/traits.h"

namespace anyaccel::launch {

struct JobAccelerator {
  sdk::Traits traits;
  bool on_cores = false;       ///< ranks compute on the host's cores; its devices are NUMA nodes
  std::optional<int> devices;  ///< of this host; empty where only torch can count them, and where
                               ///< devices are parts of the host
  std::string reason;          ///< one sentence: why this one
};

/// The accelerator `named`, otherwise the best whose devices are here, in the registry's order.
/// Throws `invalid_argument` for a name that nobody has and `unavailable` for one without devices;
/// for the host too where ANYACCEL_STRICT forbids to fall to it. With `elsewhere` ranks run on
/// other hosts, and one without devices here is no error.
JobAccelerator find_accelerator(const std::optional<std::string>& named, bool elsewhere = false);

/// The slots of this host: those that the accelerator's variable leaves visible, by the names that
/// stand in it, otherwise numbers. Not for an accelerator that computes on cores. Throws
/// `unavailable` where the devices cannot be counted.
std::vector<std::string> visible_slots(const JobAccelerator& accelerator);

/// Slots of a host file count what is visible here: "0" is the first entry of the accelerator's
/// variable where that is set. Throws `invalid_argument` for a number behind its end.
std::vector<std::string> visible_names(const JobAccelerator& accelerator,
                                       const std::vector<std::string>& slots);

}  // namespace anyaccel::launch
