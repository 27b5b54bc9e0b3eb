// Vendors' libraries that add a device type to torch.
#pragma once

#include <string>

#include "anyaccel/sdk/traits.h"

namespace anyaccel::sdk {

/// Where such a library is. Literals.
struct VendorLibrary {
  const char* variable;   ///< names its path, when it is set
  const char* file_name;  ///< else this, as the loader finds it
  const char* python_module =
      nullptr;  ///< its is_bf16_supported() answers for the chip's generation; null: torch's word
};

/// Opens the library that registers the traits' device type with torch, unless this process has the
/// type already (a Python program imported the vendor's package, or a plugin did it). It stays
/// open. Returns an empty text, or why the type is still missing. Never throws; thread-safe.
std::string open_vendor_library(const Traits& traits, const VendorLibrary& library) noexcept;

/// As probe_torch_device, but where the traits' probe finds devices the vendor's library is opened
/// first. Nothing is opened on a machine without devices: an installed package alone never counts.
Probe probe_vendor_device(const Traits& traits, const VendorLibrary& library) noexcept;

/// Registers a backend that is the generic one on such a device type: all that differs are its
/// traits, its library and who is asked about bf16.
void register_vendor_backend(const Traits& traits, const VendorLibrary& library);

}  // namespace anyaccel::sdk
