// A DeepSpeed accelerator (a Python object) as a backend of AnyAccel.
#pragma once

#include <memory>

#include "anyaccel/sdk/backend.h"
#include "python.h"

namespace anyaccel::deepspeed {

/// The traits that the object reports. Call it with the GIL held.
sdk::Traits traits_of(const py::object& accelerator, const std::string& name);

/// Keeps `accelerator` for the lifetime of the process: no thread may be in Python when the process
/// exits.
std::shared_ptr<sdk::Backend> make_backend(const py::object& accelerator,
                                           const sdk::Traits& traits);

}  // namespace anyaccel::deepspeed
