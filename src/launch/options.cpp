#include "launch/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "base/nearest_name.h"
#include "base/untrusted_text.h"
#include "launch/foreign_options.h"

namespace anyaccel::launch {

namespace {

constexpr std::array<const char*, 7> kRunners{"pdsh", "ssh",     "openmpi", "mpich",
                                              "impi", "mvapich", "slurm"};

[[noreturn]] void fail(const std::string& text) { throw OptionError("launch: " + text); }

int number(std::string_view name, std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
    fail(std::string(name) + " requires an integer " +
         (high < std::numeric_limits<int>::max()
              ? "from " + std::to_string(low) + " to " + std::to_string(high)
              : "of at least " + std::to_string(low)) +
         ", got " + quoted_text(text));
  return value;
}

constexpr int kMany = std::numeric_limits<int>::max();

/// Parses a count. As in DeepSpeed, -1 means all.
std::optional<int> count(std::string_view name, std::string_view text) {
  if (text == "-1") return std::nullopt;
  return number(name, text, 1, kMany);
}

Runner runner(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (std::size_t i = 0; i < kRunners.size(); ++i)
    if (lower == kRunners[i]) return static_cast<Runner>(i);
  std::string known;
  for (const char* name : kRunners) known.append(known.empty() ? "" : ", ").append(name);
  fail("--launcher requires one of " + known + ", got " + quoted_text(text));
}

LogLevel level(std::string_view text) {
  for (const auto& [name, value] : {std::pair{"debug", LogLevel::debug},
                                    {"info", LogLevel::info},
                                    {"warning", LogLevel::warning},
                                    {"error", LogLevel::error},
                                    {"critical", LogLevel::error}})
    if (text == name) return value;
  fail("--log_level requires debug, info, warning, error or critical, got " + quoted_text(text));
}

/// A DeepSpeed option that is deliberately not supported.
struct Refused {
  std::string_view name;
  const char* reason;
};
constexpr Refused kRefused[] = {
    {"--autotuning", "it tunes the DeepSpeed engine, but this launcher only starts programs"},
    {"--elastic_training", "the number of ranks is fixed, and one failed rank terminates the job"},
    {"--min_elastic_nodes", "the number of ranks is fixed, and one failed rank terminates the job"},
    {"--max_elastic_nodes", "the number of ranks is fixed, and one failed rank terminates the job"},
};

using Set = void (*)(Options&, std::string_view name, std::string_view value);

struct Option {
  std::string_view name;
  std::string_view also;   ///< alternative name; may be empty
  std::string_view value;  ///< name of the value in the help; empty for a flag
  const char* help;        ///< null for an internal option that launchers pass to agents
  Set set;
};

template <bool Options::*member>
void flag(Options& options, std::string_view, std::string_view) {
  options.*member = true;
}
template <std::string Options::*member>
void text(Options& options, std::string_view name, std::string_view value) {
  if (value.empty()) fail(std::string(name) + " requires a value");
  options.*member = value;
}
/// Stores an option's text. As in DeepSpeed, an empty value, for example from an unset variable in
/// a script, selects the default.
template <std::string Options::*member>
void maybe_empty(Options& options, std::string_view, std::string_view value) {
  options.*member = value;
}
template <std::optional<std::string> Options::*member>
void text(Options& options, std::string_view name, std::string_view value) {
  if (value.empty()) fail(std::string(name) + " requires a value");
  options.*member = std::string(value);
}
template <std::optional<int> Options::*member>
void all_or(Options& options, std::string_view name, std::string_view value) {
  options.*member = count(name, value);
}
template <std::optional<int> Options::*member>
void port(Options& options, std::string_view name, std::string_view value) {
  options.*member = number(name, value, 1, 65535);
}

constexpr Option kOptions[] = {
    {"--hostfile", "-H", "FILE",
     "Host file with one line `NAME slots=N` per host (default: /job/hostfile, or this machine)",
     [](Options& options, std::string_view, std::string_view value) {
       options.host_file = value.empty() ? std::nullopt : std::optional(std::string(value));
     }},
    {"--include", "-i", "HOST[:SLOT,...][@...]", "Use only these hosts and slots",
     maybe_empty<&Options::include>},
    {"--exclude", "-e", "HOST[:SLOT,...][@...]", "Use all hosts and slots except these",
     maybe_empty<&Options::exclude>},
    {"--num_nodes", "", "N", "Use the first N hosts", all_or<&Options::num_nodes>},
    {"--num_accelerators", "--num_gpus", "N",
     "Ranks per host (default: one per device; CPU: one per NUMA node with cores)",
     all_or<&Options::num_accelerators>},
    {"--oversubscribe", "", "",
     "On the CPU: allow more than four ranks per core, and more ranks than the host file has slots",
     flag<&Options::oversubscribe>},
    {"--master_addr", "", "ADDRESS", "Address of rank 0 (default: this machine, or the first host)",
     maybe_empty<&Options::master_addr>},
    {"--master_port", "", "PORT",
     "Port of rank 0 (default: a free port, or 29500 with several hosts)",
     port<&Options::master_port>},
    {"--launcher", "", "NAME",
     "Launcher for jobs on several hosts: pdsh, ssh, openmpi, mpich, impi, mvapich or slurm",
     [](Options& options, std::string_view, std::string_view value) {
       options.runner = runner(value);
     }},
    {"--launcher_args", "", "ARGUMENTS",
     "Additional arguments for the launcher, as one quoted string",
     maybe_empty<&Options::runner_arguments>},
    {"--no_ssh", "", "",
     "Start only this host's ranks; run the command on every host, each with its own --node_rank",
     flag<&Options::no_ssh>},
    {"--node_rank", "", "N", "Zero-based index of this host in the host file",
     [](Options& options, std::string_view name, std::string_view value) {
       options.node_rank =
           value == "-1" ? std::nullopt : std::optional(number(name, value, 0, kMany));
     }},
    {"--no_ssh_check", "", "", "Do not check whether the hosts are reachable",
     flag<&Options::no_ssh_check>},
    {"--force_multi", "", "", "Use the launcher even for a single host",
     flag<&Options::force_multi>},
    {"--ssh_port", "", "PORT", "SSH port on the hosts", port<&Options::ssh_port>},
    {"--venv_script", "", "FILE",
     "Script to source before each rank starts, such as a virtual environment's `activate`",
     text<&Options::venv_script>},
    {"--module", "", "", "Run the program as a Python module, like `python -m`",
     flag<&Options::module>},
    {"--no_python", "", "", "Run the program directly, even if its name ends in .py",
     flag<&Options::no_python>},
    {"--no_local_rank", "", "", "Do not pass --local_rank=N to a Python program",
     flag<&Options::no_local_rank>},
    {"--bind_cores_to_rank", "", "",
     "Bind each rank to its own cores, and its memory to the NUMA nodes of these cores",
     flag<&Options::bind_cores>},
    {"--bind_core_list", "", "LIST",
     "CPUs to use, for example 0-3,8,16-31:2; implies --bind_cores_to_rank",
     [](Options& options, std::string_view name, std::string_view value) {
       text<&Options::core_list>(options, name, value);
       options.bind_cores = true;
     }},
    {"--reserve_cores", "", "N",
     "Keep N cores per host free of ranks; implies --bind_cores_to_rank",
     [](Options& options, std::string_view name, std::string_view value) {
       options.reserve_cores = number(name, value, 0, kMany);
       options.bind_cores = options.bind_cores || options.reserve_cores > 0;
     }},
    {"--save_pid", "", "", "Write the launcher's process ID to /tmp/<ID>.deepspeed",
     flag<&Options::save_pid>},
    {"--enable_each_rank_log", "", "FOLDER",
     "Write each rank's output to its own file in this folder",
     [](Options& options, std::string_view name, std::string_view value) {
       text<&Options::log_folder>(options, name, value);
       if (value == "None") options.log_folder.reset();
     }},
    {"--prefix_output", "", "", "Prefix each output line with [rank N]",
     flag<&Options::prefix_output>},
    {"--log_level", "", "LEVEL", "Log level: debug, info (default), warning, error or critical",
     [](Options& options, std::string_view, std::string_view value) {
       options.log_level = level(value);
     }},
    {"--quiet", "-q", "", "Same as --log_level error",
     [](Options& options, std::string_view, std::string_view) {
       options.log_level = LogLevel::error;
     }},
    {"--dry_run", "", "", "Print the plan without starting anything", flag<&Options::dry_run>},
    {"--json", "", "", "With --dry_run: print one JSON object", flag<&Options::json>},
    {"--topology", "", "FILE",
     "With --dry_run: plan for the machine whose topology was saved with `lstopo --of xml FILE`",
     text<&Options::topology_file>},
    {"--world", "", "HOSTS", nullptr, text<&Options::world>},
    {"--agent", "", "", nullptr, flag<&Options::agent>},
    {"--silence", "", "SECONDS", nullptr,
     [](Options& options, std::string_view name, std::string_view value) {
       options.silence = number(name, value, 0, kMany);
     }},
    {"--rank_agent", "", "NAME", nullptr,
     [](Options& options, std::string_view, std::string_view value) {
       options.rank_agent = runner(value);
     }},
    {"--folder", "", "FOLDER", nullptr, text<&Options::folder>},
    {"--set", "", "NAME=VALUE", nullptr,
     [](Options& options, std::string_view, std::string_view value) {
       const auto equals = value.find('=');
       if (equals == std::string_view::npos) fail("--set requires NAME=VALUE");
       set(options.variables, std::string(value.substr(0, equals)),
           std::string(value.substr(equals + 1)));
     }},
    {"--own_slots", "", "", nullptr, flag<&Options::own_slots>},
    {"--slot_nodes", "", "", nullptr, flag<&Options::slot_nodes>},
    {"--help", "-h", "", "Print this help and exit", flag<&Options::help>},
};

/// Converts `--bind-core-list` to `--bind_core_list`.
std::string with_underscores(std::string_view name) {
  std::string out(name);
  if (out.starts_with("--")) std::replace(out.begin() + 2, out.end(), '-', '_');
  return out;
}

const Option* find(const std::string& name) {
  for (const auto& option : kOptions)
    if (option.name == name || option.also == name) return &option;
  return nullptr;
}

[[noreturn]] void fail_unknown_option(std::string_view word) {
  const auto name = word.substr(0, word.find('='));
  const auto foreign = foreign_option(name);
  if (!foreign.empty()) fail("unknown option " + quoted_text(word) + "; " + foreign);
  std::vector<std::string_view> known;
  for (const auto& option : kOptions) {
    if (option.help == nullptr) continue;
    known.push_back(option.name);
    if (!option.also.empty()) known.push_back(option.also);
  }
  fail("unknown option " + quoted_text(word) + did_you_mean(name, known));
}

void check(const Options& options) {
  if (options.module && options.no_python) fail("--module and --no_python are mutually exclusive");
  if (!options.include.empty() && !options.exclude.empty())
    fail("--include and --exclude are mutually exclusive");
  if ((options.num_nodes || options.num_accelerators) &&
      (!options.include.empty() || !options.exclude.empty()))
    fail("--num_nodes and --num_accelerators cannot be used with --include or --exclude");
  if (options.json && !options.dry_run) fail("--json requires --dry_run");
  if (options.topology_file && !options.dry_run)
    fail("--topology requires --dry_run: ranks always run on this machine");
  if (options.node_rank && !options.no_ssh)
    fail("--node_rank requires --no_ssh: otherwise this command starts the ranks on all hosts");
  if (options.force_multi && options.no_ssh)
    fail("--force_multi and --no_ssh are mutually exclusive");
  if (options.no_ssh && options.runner && *options.runner != Runner::ssh &&
      *options.runner != Runner::pdsh)
    fail("--no_ssh and --launcher " + std::string(to_string(*options.runner)) +
         " are mutually exclusive: with --no_ssh, this launcher starts the ranks itself");
  if (options.log_folder && options.prefix_output)
    fail(
        "--prefix_output and --enable_each_rank_log are mutually exclusive: each log file contains "
        "the lines of a single rank");
}

}  // namespace

const char* to_string(Runner runner) noexcept { return kRunners[static_cast<std::size_t>(runner)]; }

Options parse_options(std::span<const char* const> words) {
  Options options;
  std::size_t i = 0;
  for (; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word.size() < 2 || word.front() != '-') break;
    const auto equals = word.starts_with("--") ? word.find('=') : std::string_view::npos;
    const auto name = with_underscores(word.substr(0, equals));
    for (const auto& refused : kRefused)
      if (refused.name == name) fail(name + " is not supported: " + refused.reason);
    const Option* option = find(name);
    // Accept -Hfile, as argparse does.
    const bool joined = option == nullptr && !word.starts_with("--") && word.size() > 2;
    // Do not parse "-env" as "-e nv" or "-include" as "-i nclude".
    if (joined && (!foreign_option(word).empty() || find(with_underscores("-" + name)) != nullptr))
      fail_unknown_option(word);
    if (joined) option = find(std::string(word.substr(0, 2)));
    if (option == nullptr || (joined && option->value.empty())) fail_unknown_option(word);
    if (option->value.empty()) {
      if (equals != std::string_view::npos) fail(name + " takes no value");
      option->set(options, option->name, "");
    } else if (equals != std::string_view::npos || joined) {
      option->set(options, option->name, word.substr(joined ? 2 : equals + 1));
    } else if (i + 1 < words.size()) {
      option->set(options, option->name, words[++i]);
    } else {
      fail(name + " requires a value (" + std::string(option->value) + ")");
    }
    if (options.help) return options;
  }
  if (i == words.size() && options.rank_agent) return options;
  if (i == words.size())
    fail("no program was given; write `anyaccel launch [OPTION]... PROGRAM [ARGUMENT]...`");
  options.program = words[i];
  if (options.program.empty()) fail("the program name is empty");
  options.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
  check(options);
  return options;
}

std::string options_help() {
  std::string out =
      "Usage: anyaccel launch [OPTION]... PROGRAM [ARGUMENT]...\n\n"
      "Start a job: run PROGRAM once per device. A program whose name ends in .py runs under "
      "Python,\n"
      "with --local_rank=N as its first argument. In option names, - and _ are interchangeable.\n\n"
      "Options:\n";
  for (const auto& option : kOptions) {
    if (option.help == nullptr) continue;
    std::string left = "  ";
    if (option.also.size() == 2) left.append(option.also).append(", ");
    left.append(option.name);
    if (option.also.size() > 2) left.append(", ").append(option.also);
    if (!option.value.empty()) left.append(" ").append(option.value);
    constexpr std::size_t kColumn = 34;
    if (left.size() + 2 > kColumn)
      left.append("\n").append(kColumn, ' ');
    else
      left.append(kColumn - left.size(), ' ');
    out.append(left).append(option.help).append("\n");
  }
  out +=
      "\nExit code: 0 if all ranks succeeded; otherwise the exit code of the first rank that "
      "failed, or\n"
      "128 + N if signal N terminated that rank or the job.\n";
  return out;
}

}  // namespace anyaccel::launch
