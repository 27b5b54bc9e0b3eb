// Subcommands that need LibTorch. To add one: a source here that defines `add_<name>`, and its line
// in CMakeLists.txt.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace anyaccel::cli {

/// Exit code after a graceful shutdown on SIGINT or SIGTERM, equal to what a shell reports for
/// SIGINT.
constexpr int kInterrupted = 130;

/// Text from a model or a file, ready for standard output: control characters are escaped if that
/// is a terminal.
std::string for_output(std::string_view text);

/// What commands share with the program.
struct Context {
  int exit_code =
      0;  ///< exit code of the process; a command sets it if its answer is "no" but nothing failed
};

/// Each gets its own, already named and described, parser: it adds options and sets the callback
/// that does the work. A callback prints its result on standard output and throws `anyaccel::Error`
/// when it fails (exit code 1).
#define ANYACCEL_COMMAND(name, text, summary) void add_##name(CLI::App& command, Context& context);
#include "cli/module_commands.inc"
#undef ANYACCEL_COMMAND

}  // namespace anyaccel::cli
