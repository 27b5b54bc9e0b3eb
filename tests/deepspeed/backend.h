// Wraps a DeepSpeed accelerator, which is a Python object, as a backend of AnyAccel.
#pragma once

#include <memory>

#include "anyaccel/sdk/backend.h"
#include "python.h"

namespace anyaccel::deepspeed {

/// Returns the traits that the object reports. The caller must hold the GIL.
sdk::Traits traits_of(const py::object& accelerator, const std::string& name);

/// Returns a backend that keeps `accelerator` for the lifetime of the process, because no thread
/// may run Python while the process exits.
std::shared_ptr<sdk::Backend> make_backend(const py::object& accelerator,
                                           const sdk::Traits& traits);

}  // namespace anyaccel::deepspeed
