// Subcommands that need LibTorch. To add one, define `add_<name>` in a source file here and add a
// line to CMakeLists.txt.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace anyaccel::cli {

/// Exit code after a graceful shutdown on SIGINT or SIGTERM. Shells report the same code for
/// SIGINT.
constexpr int kInterrupted = 130;

/// Prepares text from a model or a file for standard output: escapes control characters if standard
/// output is a terminal.
std::string for_output(std::string_view text);

/// State that commands share with the program.
struct Context {
  int exit_code =
      0;  ///< exit code of the process; set by a command that fails without throwing an error
};

/// Adds options and a callback to a command's parser, which already has its name and description.
/// The callback does the work: it prints the result to standard output, and throws
/// `anyaccel::Error` on failure (exit code 1).
#define ANYACCEL_COMMAND(name, text, summary) void add_##name(CLI::App& command, Context& context);
#include "cli/module_commands.inc"
#undef ANYACCEL_COMMAND

}  // namespace anyaccel::cli
