#include "launch/ssh.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/log.h"
#include "base/shell.h"
#include "launch/pdsh.h"

namespace anyaccel::launch {

namespace {

/// Variables that DeepSpeed passes on, by the beginnings of their names; the accelerator has its own beside them.
constexpr const char* kExported[] = {"MLFLOW", "PYTHON", "MV2", "UCX"};
/// Ours: the same on all hosts. Not ANYACCEL_: what is said and where things lie is each host's own.
constexpr const char* kSame[] = {"DS_ACCELERATOR", "ANYACCEL_STRICT", "OMP_NUM_THREADS"};

/// ssh takes the first value that it is given, so these stand behind the user's.
std::vector<std::string> limits() {
  const int silence = silence_of_connections();
  if (silence == 0) return {};
  constexpr int kQuestions = 3;
  return {"-o", "ConnectTimeout=" + std::to_string(silence),
          "-o", "ServerAliveInterval=" + std::to_string(std::max(silence / kQuestions, 1)),
          "-o", "ServerAliveCountMax=" + std::to_string(kQuestions)};
}

/// What runs a line of a host's shell there.
std::vector<std::string> words_to_reach(const Options& options, const std::string& host, const std::string& command,
                                        PdshPipes pipes) {
  if (options.runner == Runner::pdsh) return pdsh_words(options, limits(), host, command, pipes);
  std::vector<std::string> out{"ssh", "-T", "-o", "BatchMode=yes", "-o", "PasswordAuthentication=no"};
  if (options.ssh_port) out.insert(out.end(), {"-p", std::to_string(*options.ssh_port)});
  for (auto& word : split_words(options.runner_arguments)) out.push_back(std::move(word));
  for (auto& word : limits()) out.push_back(std::move(word));
  out.insert(out.end(), {host, command});
  return out;
}

Variables exported(const JobInput& input) {
  Variables out;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    const auto name = text.substr(0, text.find('='));
    if (name.size() == text.size()) continue;
    bool wanted = false;
    for (const char* same : kSame) wanted = wanted || name == same;
    for (const char* prefix : kExported) wanted = wanted || name.starts_with(prefix);
    for (const auto& prefix : input.accelerator.traits.export_envs) wanted = wanted || name.starts_with(prefix);
    if (wanted) set(out, std::string(name), std::string(text.substr(name.size() + 1)));
  }
  const auto folder = std::filesystem::current_path().string();
  const auto path = env("PYTHONPATH");
  set(out, "PYTHONPATH", path ? folder + ":" + *path : folder);
  for (const auto& [name, value] : input.file_variables) set(out, name, value);
  return out;
}

/// What a program of PATH writes to its standard output, and how it ended (waitpid's status, -1 when it could not be started). It
/// reads nothing, and its errors go where ours do.
std::pair<std::string, int> output_of(const std::vector<std::string>& words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {{}, -1};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> pointers;
  for (const auto& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  std::array<char, 512> buffer;
  while (error == 0) {
    const ssize_t count = ::read(ends[0], buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = -1;
  if (error == 0)
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
  return {text, status};
}

void add(std::vector<std::string>& words, bool given, const char* option) {
  if (given) words.emplace_back(option);
}

}  // namespace

int silence_of_connections() { return static_cast<int>(env_int("ANYACCEL_LAUNCH_SILENCE", 0, 1000000).value_or(30)); }

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> out;
  bool open = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      open = false;
      continue;
    }
    if (!open) out.emplace_back(), open = true;
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size() &&
               (quote == 0 || line[i + 1] == '"' || line[i + 1] == '\\')) {
      out.back() += line[++i];
    } else {
      out.back() += c;
    }
  }
  if (quote != 0)
    throw Error(ErrorCode::invalid_argument, "launch",
                {.what = "--launcher_args has a quote without an end", .got = std::string(line)});
  return out;
}

std::string remote_command(const Options& options, const JobInput& input, std::size_t host,
                           const std::string& program) {
  std::vector<std::string> words{"env"};
  for (const auto& [name, value] : exported(input)) words.push_back(assignment(name, value));
  words.insert(words.end(), {program, "launch", "--agent", "--silence", std::to_string(silence_of_connections()),
                             "--no_ssh", "--node_rank", std::to_string(host), "--world", format_hosts(input.hosts),
                             "--master_addr", input.master_addr, "--master_port", std::to_string(input.master_port)});
  const char* levels[] = {"error", "warning", "info", "debug"};
  words.insert(words.end(), {"--log_level", levels[static_cast<int>(log_level())]});
  add(words, options.module, "--module");
  add(words, options.no_python, "--no_python");
  add(words, options.no_local_rank, "--no_local_rank");
  add(words, options.oversubscribe, "--oversubscribe");
  add(words, options.bind_cores, "--bind_cores_to_rank");
  add(words, options.prefix_output, "--prefix_output");
  if (options.core_list) words.insert(words.end(), {"--bind_core_list", *options.core_list});
  if (options.reserve_cores > 0) words.insert(words.end(), {"--reserve_cores", std::to_string(options.reserve_cores)});
  if (options.log_folder) words.insert(words.end(), {"--enable_each_rank_log", *options.log_folder});
  if (!options.venv_script.empty()) words.insert(words.end(), {"--venv_script", options.venv_script});
  words.insert(words.end(), {"--", options.program});
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return "cd " + shell_quoted({std::filesystem::current_path().string()}) + " && exec " + shell_quoted(words);
}

Job ssh_job(const Options& options, const JobInput& input, const std::string& program) {
  if (options.runner == Runner::pdsh) check_pdsh();
  Job job{.input = RankInput::held, .silence = silence_of_connections()};
  job.hosts = static_cast<int>(input.hosts.size());
  job.accelerator = input.accelerator.traits.name;
  job.master_addr = input.master_addr;
  job.master_port = input.master_port;
  for (const auto& host : input.hosts) job.world_size += static_cast<int>(host.slots.size());
  for (std::size_t i = 0; i < input.hosts.size(); ++i) {
    JobRank rank{.rank = static_cast<int>(i), .host = input.hosts[i].name};
    rank.command = words_to_reach(options, rank.host, remote_command(options, input, i, program), PdshPipes::launcher);
    job.ranks.push_back(std::move(rank));
  }
  return job;
}

std::string address_of(const Options& options, const std::string& host) {
  if (options.runner == Runner::pdsh) check_pdsh();
  const auto words =
      words_to_reach(options, host, options.master_addr.empty() ? "hostname -I" : "true", PdshPipes::pdsh);
  const auto [text, status] = output_of(words);
  if (status != 0)
    throw Error(ErrorCode::unavailable, "launch",
                {.what = host + " cannot be reached by ssh",
                 .got = status > 0 && WIFEXITED(status)
                            ? "exit code " + std::to_string(WEXITSTATUS(status)) + " of " + shell_quoted(words)
                            : "no answer",
                 .hint = "let ssh reach it without a password; --master_addr and --no_ssh_check skip this question"});
  if (!options.master_addr.empty()) return options.master_addr;
  const auto first = split_words(text.substr(0, text.find_first_of("'\"\\\\")));
  if (first.empty())
    throw Error(
        ErrorCode::unavailable, "launch",
        {.what = host + " did not say its address", .got = "nothing from `hostname -I`", .hint = "give --master_addr"});
  return first.front();
}

}  // namespace anyaccel::launch
