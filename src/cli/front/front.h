// The front program: what needs no LibTorch, and the way to the commands that do.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace anyaccel::cli {

/// A subcommand as `anyaccel --help` shows it.
struct Command {
  std::string_view name;
  std::string_view summary;
  /// Runs the command in this program and returns the exit code; null if it is in `module`. Gets the arguments after its name.
  int (*run)(std::span<const char* const> arguments);
  const char* module;  ///< file name of the library that has the command, or null
};

/// A command line that is wrong: exit code 2. The text is a sentence for the user.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The error for an option that a command does not have. Suggests the nearest of the options that `help`, the command's help text, names.
[[noreturn]] void unknown_option(std::string_view command, std::string_view word, std::string_view help);

/// The name of an option with `-` for each `_`: users may write either. Other words, and the value after `=`, stay as they are.
std::string with_dashes(std::string_view word);

/// All subcommands of this build, in the order of the help text.
std::span<const Command> commands() noexcept;

/// Folder of this program's file, symbolic links followed.
std::string own_folder();

/// Opens a command module, for example "libanyaccel_cli.so", and runs the command `argv[1]`. Throws `unavailable`
/// with the folders that were searched, or the loader's reason, when the module cannot be opened.
int run_in_module(const char* module, int argc, const char* const* argv);

#define ANYACCEL_MODULE_COMMAND(name, text, summary, module)
#define ANYACCEL_FRONT_COMMAND(name, text, summary) int run_##name(std::span<const char* const> arguments);
#include "cli/command_list.inc"
#undef ANYACCEL_MODULE_COMMAND
#undef ANYACCEL_FRONT_COMMAND

}  // namespace anyaccel::cli
