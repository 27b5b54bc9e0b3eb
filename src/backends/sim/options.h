// Options in the form that the simulator works with.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "anyaccel/sim.h"

namespace anyaccel::backends::sim {

using anyaccel::sim::Options;

/// Throws `invalid_argument` for what no device could have.
void check(const Options& options);

/// torch's bits of the types that `options` allows; all bits for no list. Throws for an unknown
/// name.
std::uint64_t dtype_bits(const Options& options);

/// SIM_CHECK and SIM_CHECK_JSON, where `options` say nothing of checks. Throws for a wrong value.
void take_checks_from_environment(Options& options);

bool operator==(const Options& a, const Options& b) noexcept;

/// torch's name of the device type that the simulator takes: "sim", or that of the backend or type
/// it stands in for.
std::string device_type_name(const Options& options);

}  // namespace anyaccel::backends::sim
