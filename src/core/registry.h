// Internal interface of the registry.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"

namespace anyaccel {

/// Registers the built-in backends and finds plugins at the first call. Thread-safe.
void prepare_registry();

/// Copies of all entries in the order of probing. Registers the built-in backends at the first
/// call. Thread-safe.
std::vector<BackendEntry> registered_entries();

/// Runs an entry's probe. If it throws, the backend is unavailable and the exception is the reason.
/// Never throws.
BackendVerdict probe_backend(const BackendEntry& entry) noexcept;

/// Makes the backend `name` answer probes with `answer`, even if it is registered later. Used for
/// devices without a driver, such as simulated ones. Thread-safe.
void answer_probe(const std::string& name, sdk::Probe answer);

/// "cpu, cuda, ..." for messages.
std::string joined(const std::vector<std::string>& command);

}  // namespace anyaccel
