#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "anyaccel/version.h"
#include "base/log.h"
#include "base/nearest_name.h"
#include "base/untrusted_text.h"
#include "cli/front/front.h"

namespace anyaccel::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
/// These commands parse --log-level themselves, because the arguments after their own options
/// belong to another program: all arguments of `launch`, `profile` and `run`, and those after `sim
/// run` and `sim campaign`.
constexpr std::string_view kWholeLine[] = {"launch", "profile", "run"};
constexpr std::string_view kWholeLineAfter[] = {ANYACCEL_SIM_NAME, "run", "campaign"};

constexpr auto kCommands = std::to_array<Command>({
#define ANYACCEL_MODULE_COMMAND(name, text, summary, module) {text, summary, nullptr, module},
#define ANYACCEL_FRONT_COMMAND(name, text, summary) {text, summary, run_##name, nullptr},
#include "cli/command_list.inc"
#undef ANYACCEL_MODULE_COMMAND
#undef ANYACCEL_FRONT_COMMAND
});

void print_help() {
  std::string text =
      "Usage: anyaccel [--log-level LEVEL] COMMAND [OPTION]...\n"
      "       anyaccel --help | --version | help COMMAND\n\n"
      "Write LLM training and inference programs once, and run them on any accelerator.\n\n"
      "Commands:\n";
  std::size_t width = 4;
  for (const Command& command : kCommands) width = std::max(width, command.name.size());
  const auto line = [&](std::string_view name, std::string_view summary) {
    text.append("  ")
        .append(name)
        .append(width + 2 - name.size(), ' ')
        .append(summary)
        .append("\n");
  };
  for (const Command& command : kCommands) line(command.name, command.summary);
  line("help", "Print this help or the options of a command");
  text +=
      "\nOptions:\n"
      "  -h, --help         Print this help and exit\n"
      "  --version          Print the version and exit\n"
      "  --log-level LEVEL  Log level on standard error: error, warning, info or debug\n"
      "\nEnvironment:\n"
      "  DS_ACCELERATOR       Name of the accelerator to use; default: the best one available\n"
      "  ANYACCEL_STRICT      1: fail instead of falling back to the CPU\n"
      "  ANYACCEL_LOG_LEVEL   Same as --log-level\n"
      "\nExit code: 0 success, 1 failure, 2 usage error, 130 interrupted.\n";
  std::fputs(text.c_str(), stdout);
}

/// `command`: the command whose help is suggested; empty: the program's own help.
int usage_error(const std::string& message, std::string_view command = {}) {
  const auto help = "anyaccel " + (command.empty() ? "" : std::string(command) + " ") + "--help";
  std::fprintf(stderr, "anyaccel: error: %s\nTry '%s'.\n", printable_text(message).c_str(),
               help.c_str());
  return kUsage;
}

int unknown_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  return usage_error("unknown command " + quoted_text(name) + did_you_mean(name, names));
}

/// Returns the value of `--log-level` if the option is at `words[i]`, and advances `i` to the last
/// argument of the option. Returns nullopt for any other argument.
std::optional<std::string_view> log_level_option(const std::vector<const char*>& words,
                                                 std::size_t& i) {
  const std::string_view word = words[i];
  for (const std::string_view option : {"--log-level", "--log_level"}) {
    if (word == option && i + 1 == words.size()) throw UsageError("--log-level requires a level");
    if (word == option) return words[++i];
    if (word.substr(0, option.size() + 1) == std::string(option) + "=")
      return word.substr(option.size() + 1);
  }
  return std::nullopt;
}

/// If `words[i]` is `--log-level`, applies it and returns true.
bool took_log_level(const std::vector<const char*>& words, std::size_t& i) {
  const auto level = log_level_option(words, i);
  if (!level) return false;
  try {
    set_log_level(parse_log_level(*level));
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  return true;
}

/// Runs the command `words[0]` with the remaining words as its arguments.
int run_command(const char* program, std::vector<const char*> words) {
  std::string name = words.front();
  std::replace(name.begin(), name.end(), '_', '-');
  words.front() = name.c_str();
  const auto command = std::find_if(kCommands.begin(), kCommands.end(),
                                    [&](const Command& c) { return c.name == name; });
  if (command == kCommands.end()) return unknown_command(name);
  if (command->run != nullptr) try {
      std::vector<const char*> rest;
      for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string_view word = words[i];
        if (std::find(std::begin(kWholeLine), std::end(kWholeLine), name) != std::end(kWholeLine) ||
            (name == kWholeLineAfter[0] &&
             (word == kWholeLineAfter[1] || word == kWholeLineAfter[2])) ||
            word == "--") {
          rest.insert(rest.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
          break;
        }
        if (!took_log_level(words, i)) rest.push_back(words[i]);
      }
      return command->run(rest);
    } catch (const UsageError& error) {
      return usage_error(error.what(), command->name);
    }
  std::vector<const char*> arguments{program};
  arguments.insert(arguments.end(), words.begin(), words.end());
  arguments.push_back(nullptr);
  return run_in_module(command->module, static_cast<int>(arguments.size()) - 1, arguments.data());
}

int run(const char* program, const std::vector<const char*>& words) {
  std::size_t i = 0;
  for (; i < words.size() && words[i][0] == '-'; ++i) {
    const std::string_view word = words[i];
    if (word == "-h" || word == "--help") return print_help(), 0;
    if (word == "--version") return std::puts("anyaccel " ANYACCEL_VERSION), 0;
    if (took_log_level(words, i)) continue;
    constexpr std::string_view kOptions[] = {"--help", "--version", "--log-level"};
    return usage_error("unknown option " + quoted_text(word) +
                       did_you_mean(word.substr(0, word.find('=')), kOptions));
  }
  std::vector<const char*> rest(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  if (rest.empty()) return usage_error("no command was given");
  if (std::string_view(rest.front()) == "help") {
    if (rest.size() == 1 || std::string_view(rest[1]) == "help") return print_help(), 0;
    rest = {rest[1], "--help"};
  }
  return run_command(program, rest);
}

/// Returns `code`, or a failure if standard output could not be written. A closed pipe (`| head`)
/// is not an error.
int close_output(int code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  if (errno != EPIPE)
    std::fprintf(stderr, "anyaccel: error: [standard output] writing failed: %s\n",
                 std::strerror(errno));
  return code != 0 ? code : kFailed;
}

}  // namespace

std::span<const Command> commands() noexcept { return kCommands; }

}  // namespace anyaccel::cli

int main(int argc, char** argv) {
  using namespace anyaccel::cli;
  int code = kFailed;
  try {
    code = run(argc > 0 ? argv[0] : "anyaccel",
               std::vector<const char*>(argv + std::min(argc, 1), argv + argc));
  } catch (const UsageError& error) {
    code = usage_error(error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "anyaccel: error: %s\n", anyaccel::printable_text(error.what()).c_str());
  }
  return close_output(code);
}
