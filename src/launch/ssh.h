// Ranks on other hosts through ssh: on each host this program starts its ranks, and ends them when
// the connection does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/job.h"

namespace anyaccel::launch {

/// Words of a shell's line with its quotes and backslashes, without anything else that a shell
/// does. Throws `invalid_argument`.
std::vector<std::string> split_words(std::string_view line);

/// The command that starts the ranks of the host with this index, as the shell of that host reads
/// it.
std::string remote_command(const Options& options, const JobInput& input, std::size_t host,
                           const std::string& program);

/// Seconds after which a host that says nothing is taken for gone, on both sides; 0: never.
/// ANYACCEL_LAUNCH_SILENCE, or 30. Throws `invalid_argument`.
int silence_of_connections();

/// What reaches each host, as a rank each.
Job ssh_job(const Options& options, const JobInput& input, const std::string& program);

/// What --master_addr says, once the host was reached by ssh; otherwise the first address that the
/// host says it has (`hostname -I`). Throws `unavailable` when it cannot be reached.
std::string address_of(const Options& options, const std::string& host);

}  // namespace anyaccel::launch
