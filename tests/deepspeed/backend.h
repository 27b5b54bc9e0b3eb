// A DeepSpeed accelerator, a Python object, as a backend of AnyAccel.
#pragma once

#include <memory>

#include "anyaccel/sdk/backend.h"
#include "python.h"

namespace anyaccel::deepspeed {

/// What the object says about itself. Call with the GIL.
sdk::Traits traits_of(const py::object& accelerator, const std::string& name);

/// `accelerator` is kept for the process's life: no thread may be in Python when the process ends.
std::shared_ptr<sdk::Backend> make_backend(const py::object& accelerator, const sdk::Traits& traits);

}  // namespace anyaccel::deepspeed
