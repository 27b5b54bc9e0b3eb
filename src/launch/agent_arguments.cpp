#include "launch/agent_arguments.h"

#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "base/env.h"
#include "base/log.h"

namespace anyaccel::launch {

namespace {

/// Prefixes of the environment variables that DeepSpeed forwards to other hosts. The accelerator's
/// traits add more.
constexpr const char* kExported[] = {"MLFLOW", "PYTHON", "MV2", "UCX"};
/// Environment variables that must be the same on all hosts. Other ANYACCEL_ variables are not
/// forwarded, because hosts may differ in their log settings and paths.
constexpr const char* kSame[] = {"DS_ACCELERATOR", "ANYACCEL_STRICT", "OMP_NUM_THREADS"};

void add(std::vector<std::string>& words, bool given, const char* option) {
  if (given) words.emplace_back(option);
}

}  // namespace

Variables passed_on(const JobInput& input) {
  Variables out;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    const auto name = text.substr(0, text.find('='));
    if (name.size() == text.size()) continue;
    bool wanted = false;
    for (const char* same : kSame) wanted = wanted || name == same;
    for (const char* prefix : kExported) wanted = wanted || name.starts_with(prefix);
    for (const auto& prefix : input.accelerator.traits.export_envs)
      wanted = wanted || name.starts_with(prefix);
    if (wanted) set(out, std::string(name), std::string(text.substr(name.size() + 1)));
  }
  const auto folder = std::filesystem::current_path().string();
  const auto path = env("PYTHONPATH");
  set(out, "PYTHONPATH", path ? folder + ":" + *path : folder);
  for (const auto& [name, value] : input.file_variables) set(out, name, value);
  return out;
}

std::vector<std::string> agent_options(const Options& options, const JobInput& input) {
  std::vector<std::string> words{"--world",       format_hosts(input.hosts),
                                 "--master_addr", input.master_addr,
                                 "--master_port", std::to_string(input.master_port)};
  const char* levels[] = {"error", "warning", "info", "debug"};
  words.insert(words.end(), {"--log_level", levels[static_cast<int>(log_level())]});
  add(words, options.module, "--module");
  add(words, options.no_python, "--no_python");
  add(words, options.no_local_rank, "--no_local_rank");
  add(words, options.oversubscribe, "--oversubscribe");
  add(words, options.bind_cores, "--bind_cores_to_rank");
  add(words, options.prefix_output, "--prefix_output");
  if (options.core_list) words.insert(words.end(), {"--bind_core_list", *options.core_list});
  if (options.reserve_cores > 0)
    words.insert(words.end(), {"--reserve_cores", std::to_string(options.reserve_cores)});
  if (options.log_folder)
    words.insert(words.end(), {"--enable_each_rank_log", *options.log_folder});
  if (!options.venv_script.empty())
    words.insert(words.end(), {"--venv_script", options.venv_script});
  words.insert(words.end(), {"--", options.program});
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return words;
}

}  // namespace anyaccel::launch
