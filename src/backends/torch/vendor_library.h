// Vendor libraries that add a device type to torch.
#pragma once

#include <string>

#include "anyaccel/sdk/traits.h"

namespace anyaccel::sdk {

/// How to find a vendor library. The strings are literals.
struct VendorLibrary {
  const char* variable;   ///< environment variable that may contain the library's path
  const char* file_name;  ///< default file name, which the loader searches for
  /// Python module with is_bf16_supported(), is_current_stream_capturing() and mem_get_info(),
  /// which are called for what torch's interfaces do not report. Null if there is none.
  const char* python_module = nullptr;
  /// Symbol of a function with a device index as its argument (c10::DeviceIndex). A program without
  /// the vendor's Python package must call it before it uses a device. Null if there is none.
  const char* initialize = nullptr;
  /// False if the device guard's default stream is wrong. Then the stream that is current on a new
  /// thread is used.
  bool default_stream = true;
};

/// Loads the library that registers the traits' device type with torch, unless this process already
/// has the type (because a Python program or a plugin loaded it). The library stays loaded. Returns
/// an empty string on success, otherwise the reason why the type is still missing. Never throws;
/// thread-safe.
std::string open_vendor_library(const Traits& traits, const VendorLibrary& library) noexcept;

/// Like probe_torch_device(), but loads the vendor's library first if the traits' probe finds
/// devices. On a machine without devices, nothing is loaded: an installed package alone does not
/// mean that there is a device.
Probe probe_vendor_device(const Traits& traits, const VendorLibrary& library) noexcept;

/// Registers the generic backend for a device type that a vendor's library adds. Such backends
/// differ only in their traits, their library and the Python module that is queried about bf16.
void register_vendor_backend(const Traits& traits, const VendorLibrary& library);

}  // namespace anyaccel::sdk
