// Starts ranks on other hosts through ssh. On each host, this program runs as an agent, which
// starts the host's ranks and terminates them when the connection closes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/job.h"

namespace anyaccel::launch {

/// Splits a line into arguments as a shell does. Only quotes and backslashes are interpreted.
/// Throws `invalid_argument`.
std::vector<std::string> split_words(std::string_view line);

/// Returns the command that starts the ranks on the host with index `host`, quoted for that host's
/// shell.
std::string remote_command(const Options& options, const JobInput& input, std::size_t host,
                           const std::string& program);

/// Returns ANYACCEL_LAUNCH_SILENCE (default 30). After this many seconds without data, each end of
/// a connection assumes that the other end is gone; 0 means never. Throws `invalid_argument`.
int silence_of_connections();

/// Returns a job with one ssh or pdsh client per host.
Job ssh_job(const Options& options, const JobInput& input, const std::string& program);

/// Connects to the host and returns --master_addr or, if it is not set, the first address from
/// `hostname -I`. Throws `unavailable` if the host cannot be reached.
std::string address_of(const Options& options, const std::string& host);

}  // namespace anyaccel::launch
