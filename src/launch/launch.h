// From options to a job on this host.
#pragma once

#include <string>

#include "launch/job.h"

namespace anyaccel::launch {

/// What the options come to here: looks at host file, devices, topology, variables and files, and starts nothing. Throws what the parts
/// throw; `unsupported` for ranks on other hosts, which no runner reaches yet.
Job make_job(const Options& options);

/// A TCP port of this machine that nobody listens on now. Throws `unavailable`.
int free_port();

/// The job as text for people.
std::string describe(const Job& job);

}  // namespace anyaccel::launch
