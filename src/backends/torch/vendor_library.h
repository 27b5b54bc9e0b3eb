// Vendors' libraries that add a device type to torch.
#pragma once

#include <string>

#include "anyaccel/sdk/traits.h"

namespace anyaccel::sdk {

/// Where such a library is. The strings are literals.
struct VendorLibrary {
  const char* variable;                 ///< variable that may contain its path
  const char* file_name;                ///< default file name, for which the loader searches
  const char* python_module = nullptr;  ///< module whose is_bf16_supported() knows the chip's
                                        ///< generation; null: use torch's answer
};

/// Opens the library that registers the traits' device type with torch, unless this process has the
/// type already (because a Python program or a plugin loaded it). The library stays open. Returns
/// an empty string, or why the type is still missing. Never throws; thread-safe.
std::string open_vendor_library(const Traits& traits, const VendorLibrary& library) noexcept;

/// Like probe_torch_device(), but opens the vendor's library first if the traits' probe finds
/// devices. On a machine without devices, nothing is opened: an installed package alone does not
/// count.
Probe probe_vendor_device(const Traits& traits, const VendorLibrary& library) noexcept;

/// Registers the generic backend for such a device type. Such backends differ only in their traits,
/// their library and the Python module that is queried about bf16.
void register_vendor_backend(const Traits& traits, const VendorLibrary& library);

}  // namespace anyaccel::sdk
