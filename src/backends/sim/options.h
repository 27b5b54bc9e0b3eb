// Validates and converts the simulator's options.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "anyaccel/sim.h"
#include "backends/sim/traits.h"

namespace anyaccel::backends::sim {

using anyaccel::sim::Options;

/// Throws `invalid_argument` for an invalid option.
void check(const Options& options);

/// Bit mask of the dtypes that `options` allows, indexed by c10::ScalarType. All bits are set if
/// the list is empty. Throws for an unknown name.
std::uint64_t dtype_bits(const Options& options);

/// Applies SIM_CHECK and SIM_CHECK_JSON if `options` do not configure checks. Does not validate
/// them.
void take_checks_from_environment(Options& options);

/// Name of the variable that selects devices: SIM_VISIBLE_DEVICES, or that of the backend that the
/// simulator replaces. Empty: none.
std::string visible_variable(const Options& options);

/// Number of devices that the process sees.
int visible_count(const Options& options);
/// Describes the selection for messages, such as "; CUDA_VISIBLE_DEVICES selects 1 of 2 devices".
std::string visible_text(const Options& options);

bool operator==(const Options& a, const Options& b) noexcept;

/// torch's name for the simulator's device type: "sim", or the name of the backend or type that the
/// simulator stands in for.
std::string device_type_name(const Options& options);

}  // namespace anyaccel::backends::sim
