// Recognizes allocation failures of devices that do not throw torch's out-of-memory error.
#pragma once

#include <c10/util/Exception.h>

#include <string_view>

namespace anyaccel {

/// True if a device's error message reports that an allocation failed, for example "out of memory"
/// or "Failed to allocate 64 bytes". Ignores case.
bool reports_allocation_failure(std::string_view message) noexcept;

/// True for c10::OutOfMemoryError, and for a plain c10::Error (RuntimeError in Python) whose
/// message reports a failed allocation. Several PrivateUse1 devices throw such an error.
bool is_out_of_memory(const c10::Error& error) noexcept;

}  // namespace anyaccel
