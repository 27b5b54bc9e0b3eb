// The agent of one rank. An MPI or Slurm launcher starts one agent per rank, so that the rank's
// program inherits the variables and descriptors that MPI needs. The agent reads its rank from
// those variables, plans with the topology of its host, and then runs its rank like the launcher.
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

/// Variable with the agents' arguments, in the format of format_words().
constexpr const char* kJobVariable = "ANYACCEL_LAUNCH_JOB";

/// Encodes words in a text that consists only of letters, digits and `_-./:=,@+%~`, which every
/// runner passes on unchanged.
std::string format_words(const std::vector<std::string>& words);
/// Decodes such a text. Throws `invalid_argument`.
std::vector<std::string> parse_words(std::string_view text);

/// Place that a runner has assigned to a process.
struct RankPlace {
  int rank = 0;
  int world_size = 0;
  int local_rank = 0;
  std::optional<int> local_size;  ///< empty: the runner does not provide it
};

/// Reads the runner's variables. Throws `unavailable` if they are missing.
RankPlace place_of(Runner runner,
                   const std::function<std::optional<std::string>(const char*)>& variable);

/// Returns the index of the host that has this rank in the plan, where ranks are numbered host by
/// host. Throws `invalid_argument` if the runner put the process elsewhere.
std::size_t host_of(const std::vector<Host>& hosts, const RankPlace& place, Runner runner);

/// Reads the options of this agent from its environment. Also sets the variables that its rank gets
/// and changes to the launcher's folder. Throws the errors of the functions above, and `not_found`
/// if this host does not have that folder.
ANYACCEL_API Options rank_options(Runner runner);

/// Returns a descriptor that becomes readable when the parent process has ended or, for Slurm, when
/// standard input ends. The caller must not read from it.
ANYACCEL_API int end_of_job(Runner runner);

}  // namespace anyaccel::launch
