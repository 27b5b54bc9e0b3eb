// The small launcher of one rank. An MPI or Slurm launcher starts one for each rank, so that the
// rank's program is a process of that launcher: it inherits the variables and descriptors through
// which MPI finds itself. The agent reads from those variables which rank it is, plans with its own
// host's topology, and is the launcher of its one rank otherwise.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"
#include "launch/hosts.h"
#include "launch/options.h"

namespace anyaccel::launch {

/// The variable that tells agents what to start: words as format_words() writes them.
constexpr const char* kJobVariable = "ANYACCEL_LAUNCH_JOB";

/// Words as one text of letters, digits and `_-./:=,@+%~` alone, which every runner passes on
/// whole.
std::string format_words(const std::vector<std::string>& words);
/// Reads it. Throws `invalid_argument`.
std::vector<std::string> parse_words(std::string_view text);

/// Where a runner put a process.
struct Place {
  int rank = 0;
  int world_size = 0;
  int local_rank = 0;
  std::optional<int> local_size;  ///< empty: the runner does not say
};

/// Reads the runner's variables. Throws `unavailable` when they are not there.
Place place_of(Runner runner,
               const std::function<std::optional<std::string>(const char*)>& variable);

/// The index of the host that has this rank by the plan, ranks being numbered host by host. Throws
/// `invalid_argument` when the runner put the process elsewhere.
std::size_t host_of(const std::vector<Host>& hosts, const Place& place, Runner runner);

/// What this agent has to start: from its environment, which it changes to what its rank shall
/// have, in the folder of the launcher, which it goes to. Throws as the above, and `not_found` when
/// there is no such folder here.
ANYACCEL_API Options rank_options(Runner runner);

/// A descriptor that is readable when the process that started this one is gone or, where the
/// runner is asked in this way, when standard input ends. Nothing is to be read from it.
ANYACCEL_API int end_of_job(Runner runner);

}  // namespace anyaccel::launch
