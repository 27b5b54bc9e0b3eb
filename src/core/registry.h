// The registry's state, for detection.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"

namespace anyaccel {

/// Registers the built backends and finds the plugins, at its first call. Thread-safe.
void prepare_registry();

/// Copies of all entries in the order of probing; registers the built ones at its first call.
/// Thread-safe.
std::vector<BackendEntry> registered_entries();

/// Runs an entry's probe; an exception becomes the reason of "no". Never throws.
BackendVerdict probe_backend(const BackendEntry& entry) noexcept;

/// From now on probing the backend `name` gives `answer`, also when it is registered later. For who
/// provides a device that no driver knows of, as a simulator does. Thread-safe.
void answer_probe(const std::string& name, sdk::Probe answer);

/// "cpu, cuda, ..." for messages.
std::string joined(const std::vector<std::string>& command);

}  // namespace anyaccel
