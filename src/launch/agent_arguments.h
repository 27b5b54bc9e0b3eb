// The arguments and variables that the launcher passes to agents. An agent is a launcher that runs
// on another host or starts a single rank. The arguments are the same for every runner.
#pragma once

#include <string>
#include <vector>

#include "launch/job.h"

namespace anyaccel::launch {

/// Returns the environment variables to forward to agents: this process's variables with one of
/// DeepSpeed's or the accelerator's prefixes, and those from the environment files.
Variables passed_on(const JobInput& input);

/// Returns hosts, address, options and program as arguments for parse_options(). The caller inserts
/// the arguments that name the agent's host or rank before them.
std::vector<std::string> agent_options(const Options& options, const JobInput& input);

}  // namespace anyaccel::launch
