// A communication backend with one defect.
#pragma once

#include <string>

namespace anyaccel::test {

inline constexpr const char* kCommDefects[] = {
    "collective_does_nothing",       "collective_always_sums",
    "collective_stops_halfway",      "collective_ignores_streams",
    "collective_fails_silently",     "gather_swaps_ranks",
    "broadcast_from_rank_0",         "scatter_gives_part_0",
    "message_loses_its_end",         "barrier_is_open",
    "collective_reduces_in_float32",
};

/// Registers a process-group backend with the defect and returns its name, or "" if the defect does
/// not affect communication.
std::string register_mutant_comm(const std::string& defect);

}  // namespace anyaccel::test
