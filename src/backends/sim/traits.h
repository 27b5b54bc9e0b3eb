// Traits of the simulator and its lists of visible devices, available without torch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/sdk/traits.h"

namespace anyaccel::backends::sim {

/// Traits of this backend. Thread-safe.
ANYACCEL_API const sdk::Traits& traits();

/// The devices that a list such as "1,0" selects out of `devices`. Follows the rules of
/// CUDA_VISIBLE_DEVICES: the list ends at the first entry that does not name a device, and if a
/// device is repeated, none is selected. Entries are indices or the start of the UUID, such as
/// "GPU-00000000-0000-0000-0000-000000000001".
ANYACCEL_API std::vector<int> select_devices(std::string_view list, int devices);

/// UUID of a device without the prefix "GPU-".
ANYACCEL_API std::string device_uuid(int device);

}  // namespace anyaccel::backends::sim
