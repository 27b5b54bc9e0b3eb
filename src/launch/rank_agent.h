// The agent for one rank. An MPI or Slurm launcher starts one agent per rank, so that the rank's
// program inherits the variables and descriptors that MPI needs. The agent reads its rank from
// those variables, makes a plan based on its host's topology, and then runs its rank as the
// launcher would.
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

/// Environment variable that contains the agents' arguments, in the format of format_words().
constexpr const char* kJobVariable = "ANYACCEL_LAUNCH_JOB";

/// Encodes arguments as text that consists only of letters, digits and `_-./:=,@+%~`. Every runner
/// passes such text on unchanged.
std::string format_words(const std::vector<std::string>& words);
/// Decodes a text from format_words(). Throws `invalid_argument`.
std::vector<std::string> parse_words(std::string_view text);

/// The rank numbers and sizes that a runner has assigned to a process.
struct RankPlace {
  int rank = 0;
  int world_size = 0;
  int local_rank = 0;
  std::optional<int> local_size;  ///< empty if the runner does not provide it
};

/// Reads the environment variables that the runner sets. Throws `unavailable` if they are missing.
RankPlace place_of(Runner runner,
                   const std::function<std::optional<std::string>(const char*)>& variable);

/// Returns the index of the host that has this rank in the plan, where ranks are numbered host by
/// host. Throws `invalid_argument` if the runner started the process on another host.
std::size_t host_of(const std::vector<Host>& hosts, const RankPlace& place, Runner runner);

/// Reads the options of this agent from its environment. Also sets the variables for its rank and
/// changes to the launcher's folder. Throws `not_found` if this host does not have that folder, and
/// the same errors as the functions above.
ANYACCEL_API Options rank_options(Runner runner);

/// Returns a descriptor that becomes readable when the parent process has exited or, for Slurm,
/// when standard input is at end-of-file. The caller must not read from the descriptor.
ANYACCEL_API int end_of_job(Runner runner);

}  // namespace anyaccel::launch
