// The front program: commands that do not need LibTorch, and the entry point for those that do.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace anyaccel::cli {

/// A subcommand, as listed by `anyaccel --help`.
struct Command {
  std::string_view name;
  std::string_view summary;
  /// Runs the command with the arguments after its name and returns the exit code. The
  /// pointer is null if the command is in `module`.
  int (*run)(std::span<const char* const> arguments);
  const char* module;  ///< file name of the library that contains the command, or null
};

/// An invalid command line: exit code 2. The text is a message for the user.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// All subcommands of this build, in the order of the help text.
std::span<const Command> commands() noexcept;

/// The folder that contains this program, with symbolic links resolved.
std::string own_folder();

/// Opens a command module, for example "libanyaccel_cli.so", and runs the command `argv[1]`. If the
/// module cannot be opened, throws `unavailable` with the searched folders or the loader's reason.
int run_in_module(const char* module, int argc, const char* const* argv);

#define ANYACCEL_MODULE_COMMAND(name, text, summary, module)
#define ANYACCEL_FRONT_COMMAND(name, text, summary) \
  int run_##name(std::span<const char* const> arguments);
#include "cli/command_list.inc"
#undef ANYACCEL_MODULE_COMMAND
#undef ANYACCEL_FRONT_COMMAND

}  // namespace anyaccel::cli
