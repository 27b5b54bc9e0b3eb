// In Python programs torch's own Python code refuses other accelerators' devices before the library is asked. No torch.
#pragma once

namespace anyaccel::backends::sim::checking {

/// Called with a device type's name, such as that of a module of torch, on the thread that asked for it.
using NameFunction = void (*)(const char* device_type);

/// Watches torch's modules of device types other than `own`. False when torch is not imported yet, so that it has to be
/// tried again; true also where there is no Python.
bool watch_python_names(const char* own, NameFunction refused);

}  // namespace anyaccel::backends::sim::checking
