// Validates and converts the simulator's options.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "anyaccel/sim.h"

namespace anyaccel::backends::sim {

using anyaccel::sim::Options;

/// Throws `invalid_argument` for an invalid option.
void check(const Options& options);

/// Bit mask of the dtypes that `options` allows, indexed by torch's numbers for them. All bits are
/// set if the list is empty. Throws for an unknown name.
std::uint64_t dtype_bits(const Options& options);

/// Applies SIM_CHECK and SIM_CHECK_JSON if `options` do not configure checks. Does not validate
/// them.
void take_checks_from_environment(Options& options);

bool operator==(const Options& a, const Options& b) noexcept;

/// torch's name of the simulator's device type: "sim", or the name of the backend or type that the
/// simulator stands in for.
std::string device_type_name(const Options& options);

}  // namespace anyaccel::backends::sim
