// Internal interface of the registry.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"

namespace anyaccel {

/// On the first call, registers the built-in backends and finds plugins. Thread-safe.
void prepare_registry();

/// Returns copies of all entries in probing order. On the first call, registers the built-in
/// backends. Thread-safe.
std::vector<BackendEntry> registered_entries();

/// Runs an entry's probe. If the probe throws, the backend is unavailable and the exception is the
/// reason. Never throws.
BackendVerdict probe_backend(const BackendEntry& entry) noexcept;

/// Makes `answer` the result of all probes of the backend `name`, even if the backend is registered
/// later. Used for devices that have no driver, such as simulated ones. Thread-safe.
void answer_probe(const std::string& name, sdk::Probe answer);

/// Returns a list such as "cpu, cuda, ..." for messages.
std::string joined(const std::vector<std::string>& command);

}  // namespace anyaccel
