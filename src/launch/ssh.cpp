#include "launch/ssh.h"

#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/shell.h"
#include "launch/agent_arguments.h"
#include "launch/pdsh.h"
#include "launch/run_program.h"

namespace anyaccel::launch {

namespace {

/// Returns ssh options that limit how long ssh waits for a silent host. ssh uses the first value of
/// an option, so these options come after the user's.
std::vector<std::string> limits() {
  const int silence = silence_of_connections();
  if (silence == 0) return {};
  constexpr int kQuestions = 3;
  return {"-o", "ConnectTimeout=" + std::to_string(silence),
          "-o", "ServerAliveInterval=" + std::to_string(std::max(silence / kQuestions, 1)),
          "-o", "ServerAliveCountMax=" + std::to_string(kQuestions)};
}

/// Returns the command that runs a shell command line on a host.
std::vector<std::string> words_to_reach(const Options& options, const std::string& host,
                                        const std::string& command, PdshPipes pipes) {
  if (options.runner == Runner::pdsh) return pdsh_words(options, limits(), host, command, pipes);
  std::vector<std::string> out{"ssh",           "-T", "-o",
                               "BatchMode=yes", "-o", "PasswordAuthentication=no"};
  if (options.ssh_port) out.insert(out.end(), {"-p", std::to_string(*options.ssh_port)});
  for (auto& word : split_words(options.runner_arguments)) out.push_back(std::move(word));
  for (auto& word : limits()) out.push_back(std::move(word));
  out.insert(out.end(), {host, command});
  return out;
}

}  // namespace

int silence_of_connections() {
  return static_cast<int>(env_int("ANYACCEL_LAUNCH_SILENCE", 0, 1000000).value_or(30));
}

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
                {.what = "--launcher_args has an unterminated quote", .got = std::string(line)});
  return out;
}

std::string remote_command(const Options& options, const JobInput& input, std::size_t host,
                           const std::string& program) {
  std::vector<std::string> words{"env"};
  for (const auto& [name, value] : passed_on(input)) words.push_back(assignment(name, value));
  words.insert(words.end(),
               {program, "launch", "--agent", "--silence", std::to_string(silence_of_connections()),
                "--no_ssh", "--node_rank", std::to_string(host)});
  for (auto& word : agent_options(options, input)) words.push_back(std::move(word));
  return "cd " + shell_quoted({std::filesystem::current_path().string()}) + " && exec " +
         shell_quoted(words);
}

Job ssh_job(const Options& options, const JobInput& input, const std::string& program) {
  if (options.runner == Runner::pdsh) check_pdsh();
  Job job{.input = RankInput::held, .silence = silence_of_connections(), .own_group = true};
  job.hosts = static_cast<int>(input.hosts.size());
  job.accelerator = input.accelerator.traits.name;
  job.master_addr = input.master_addr;
  job.master_port = input.master_port;
  for (const auto& host : input.hosts) job.world_size += static_cast<int>(host.slots.size());
  for (std::size_t i = 0; i < input.hosts.size(); ++i) {
    JobRank rank{.rank = static_cast<int>(i), .host = input.hosts[i].name};
    rank.command = words_to_reach(options, rank.host, remote_command(options, input, i, program),
                                  PdshPipes::launcher);
    job.ranks.push_back(std::move(rank));
  }
  return job;
}

std::string address_of(const Options& options, const std::string& host) {
  if (options.runner == Runner::pdsh) check_pdsh();
  const auto words = words_to_reach(
      options, host, options.master_addr.empty() ? "hostname -I" : "true", PdshPipes::pdsh);
  const auto [text, status] = output_of(words);
  if (status != 0)
    throw Error(ErrorCode::unavailable, "launch",
                {.what = host + " cannot be reached over ssh",
                 .got = status > 0 && WIFEXITED(status)
                            ? "exit code " + std::to_string(WEXITSTATUS(status)) + " of " +
                                  shell_quoted(words)
                            : "no answer",
                 .hint = "set up passwordless ssh, or skip this check with --master_addr and "
                         "--no_ssh_check"});
  if (!options.master_addr.empty()) return options.master_addr;
  const auto first = split_words(text.substr(0, text.find_first_of("'\"\\\\")));
  if (first.empty())
    throw Error(ErrorCode::unavailable, "launch",
                {.what = host + " did not report its address",
                 .got = "no output from `hostname -I`",
                 .hint = "pass --master_addr"});
  return first.front();
}

}  // namespace anyaccel::launch
