// What a launcher on another host, or of one rank, is told by the one that starts it: the same for
// every runner.
#pragma once

#include <string>
#include <vector>

#include "launch/job.h"

namespace anyaccel::launch {

/// The variables that are passed on: those of this process that begin as DeepSpeed's or the
/// accelerator's do, and what files say.
Variables passed_on(const JobInput& input);

/// Hosts, address, options and program, as parse_options() reads them behind what says which host
/// or rank it is.
std::vector<std::string> agent_options(const Options& options, const JobInput& input);

}  // namespace anyaccel::launch
