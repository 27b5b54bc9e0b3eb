// Subcommands that need LibTorch. To add one: a source here that defines `add_<name>`, and its line in CMakeLists.txt.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace anyaccel::cli {

/// A command's exit code after SIGINT or SIGTERM ended its work in order: what a shell reports for SIGINT.
constexpr int kInterrupted = 130;

/// A model's or a file's text for standard output: without control characters if that is a terminal.
std::string for_output(std::string_view text);

/// What commands share with the program.
struct Context {
  int exit_code = 0;  ///< what the process ends with; a command sets it where its answer is "no" but nothing failed
};

/// Each gets its own, already named and described, parser: it adds options and sets the callback that does the work.
/// A callback prints its result on standard output and throws `anyaccel::Error` when it fails (exit code 1).
#define ANYACCEL_COMMAND(name, text, summary) void add_##name(CLI::App& command, Context& context);
#include "cli/module_commands.inc"
#undef ANYACCEL_COMMAND

}  // namespace anyaccel::cli
