#include "launch/rank_agent.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "anyaccel/error.h"
#include "base/env.h"

namespace anyaccel::launch {

namespace {

constexpr const char* kWhere = "launch";
constexpr char kBetween = '~';
/// Encodes an empty argument. This is unambiguous, because no argument contains a NUL byte.
constexpr std::string_view kEmpty = "%00";

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-./:=,@+").find(c) != std::string_view::npos;
}

[[noreturn]] void fail_job(std::string_view text) {
  throw Error(ErrorCode::invalid_argument, kWhere,
              {.what = std::string(kJobVariable) + " is not a valid job description",
               .got = std::string(text)});
}

/// Names of the environment variables from which each process of a runner reads its rank.
struct Names {
  Runner runner;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;  ///< null if the runner does not provide it
};
constexpr Names kNames[] = {
    {Runner::openmpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Runner::mpich, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Runner::impi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    // First try the variables of mpirun_rsh, then those of Hydra.
    {Runner::mvapich, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {Runner::mvapich, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Runner::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
};

}  // namespace

std::string format_words(const std::vector<std::string>& words) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const auto& word : words) {
    if (!out.empty()) out += kBetween;
    if (word.empty()) out += kEmpty;
    for (const char c : word) {
      const auto byte = static_cast<unsigned char>(c);
      if (is_plain(c))
        out += c;
      else
        out.append({'%', kDigits[byte / 16], kDigits[byte % 16]});
    }
  }
  return out;
}

std::vector<std::string> parse_words(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(kBetween, begin), text.size());
    const auto word = text.substr(begin, end - begin);
    begin = end + 1;
    auto& made = out.emplace_back();
    if (word == kEmpty) continue;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (is_plain(word[i])) {
        made += word[i];
        continue;
      }
      if (word[i] != '%') fail_job(text);
      unsigned byte = 0;
      const char* digits = word.data() + i + 1;
      if (i + 2 >= word.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2 ||
          byte == 0)
        fail_job(text);
      made += static_cast<char>(byte);
      i += 2;
    }
  }
  return out;
}

RankPlace place_of(Runner runner,
                   const std::function<std::optional<std::string>(const char*)>& variable) {
  const auto number = [&](const char* name) {
    const auto text = variable(name);
    int value = -1;
    if (text) std::from_chars(text->data(), text->data() + text->size(), value);
    if (value >= 0) return value;
    throw Error(ErrorCode::unavailable, kWhere,
                {.what = std::string(to_string(runner)) + " did not set the rank of a process",
                 .got = text ? std::string(name) + "=" + *text : std::string("no ") + name,
                 .want = std::string(name) + "=N"});
  };
  const char* first = nullptr;
  for (const auto& names : kNames) {
    if (names.runner != runner) continue;
    if (first == nullptr) first = names.rank;
    if (!variable(names.rank)) continue;
    RankPlace place{number(names.rank), number(names.world_size), number(names.local_rank),
                    std::nullopt};
    if (names.local_size != nullptr) place.local_size = number(names.local_size);
    return place;
  }
  number(first == nullptr ? "RANK" : first);
  return {};
}

std::size_t host_of(const std::vector<Host>& hosts, const RankPlace& place, Runner runner) {
  int first = 0, size = 0;
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const int slots = static_cast<int>(hosts[i].slots.size());
    if (place.rank >= size && place.rank < size + slots) {
      found = i;
      first = size;
    }
    size += slots;
  }
  const int slots = found ? static_cast<int>(hosts[*found].slots.size()) : 0;
  if (found && size == place.world_size && first + place.local_rank == place.rank &&
      place.local_size.value_or(slots) == slots)
    return *found;
  const auto text = [](int rank, int world, int local, int of) {
    return "rank " + std::to_string(rank) + " of " + std::to_string(world) + ", local rank " +
           std::to_string(local) + " of " + std::to_string(of);
  };
  throw Error(
      ErrorCode::invalid_argument, kWhere,
      {.what = std::string(to_string(runner)) + " placed ranks differently than planned",
       .got =
           text(place.rank, place.world_size, place.local_rank, place.local_size.value_or(slots)),
       .want = found
                   ? text(place.rank, size, place.rank - first, slots) + " on " + hosts[*found].name
                   : std::to_string(size) + " ranks",
       .hint = "remove process-placement options from --launcher_args, and list each host once"});
}

Options rank_options(Runner runner) {
  const auto text = env(kJobVariable);
  if (!text)
    throw Error(ErrorCode::unavailable, kWhere,
                {.what = std::string(to_string(runner)) + " did not forward " + kJobVariable,
                 .hint = "remove options that filter environment variables from --launcher_args"});
  ::unsetenv(kJobVariable);
  const auto words = parse_words(*text);
  std::vector<const char*> pointers;
  for (const auto& word : words) pointers.push_back(word.c_str());
  auto options = parse_options(pointers);
  for (const auto& [name, value] : options.variables)
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0)
    throw Error(ErrorCode::not_found, kWhere,
                {.what = "cannot change to the launcher's folder " + options.folder +
                         " on this host: " + std::strerror(errno)});
  const auto place = place_of(runner, env);
  options.node_rank = static_cast<int>(host_of(parse_hosts(options.world), place, runner));
  options.local_rank = place.local_rank;
  options.rank_agent = runner;
  options.no_ssh = options.agent = true;
  return options;
}

int end_of_job(Runner runner) {
  const pid_t parent = ::getppid();
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
  // Fallback for Linux before 5.3 and for a parent outside this PID namespace. It is less reliable,
  // because the signal is sent when the parent's thread exits, not when its process exits.
  if (descriptor < 0) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  if (runner != Runner::slurm) return descriptor;
  const int both = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event readable{.events = EPOLLIN, .data = {}};
  if (descriptor >= 0) ::epoll_ctl(both, EPOLL_CTL_ADD, descriptor, &readable);
  epoll_event ended{.events = 0, .data = {}};  // EPOLLHUP is always reported, even with no events
  ::epoll_ctl(both, EPOLL_CTL_ADD, STDIN_FILENO, &ended);
  return both;
}

}  // namespace anyaccel::launch
