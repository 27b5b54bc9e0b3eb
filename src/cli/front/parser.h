// Command-line parsing with CLI11 for all subcommands except `launch`. Option names may contain `_`
// or `-`, and error messages suggest the nearest option. Compiled into the front program and into
// the command modules.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace anyaccel::cli {

/// Converts arguments for CLI11's parse(): reverses their order and replaces `_` with `-` in option
/// names. Arguments after `--` are not modified.
std::vector<std::string> parser_words(std::span<const char* const> words);

/// Sets the help option and the column width, which are the same for all commands.
void format_help(CLI::App& command);

/// Makes `--flag=value` an error for all flags of `app` and of its subcommands.
void reject_flag_values(CLI::App& app);

/// Index of the first argument that is neither an option of `app` nor an option's value. For
/// commands that run another program, whose arguments must not be parsed.
std::size_t end_of_options(const CLI::App& app, std::span<const char* const> words);

/// Returns a one-line message for a command line that `app` failed to parse.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error);

/// Creates the parser of a front command. `name` is as users write it, for example "topology".
std::unique_ptr<CLI::App> make_parser(const std::string& name, const std::string& description);

/// Adds the option `--log-level`, which also sets ANYACCEL_LOG_LEVEL for the program that a command
/// runs.
void add_log_level_option(CLI::App& app);

/// Adds PROGRAM to the help of a command that runs another program.
void add_program_option(CLI::App& app);

/// Returns the program and its arguments: the words from `end` on, without a leading `--`. Throws
/// UsageError, with the name of `command`, if there are none.
std::span<const char* const> program_words(const std::string& command,
                                           std::span<const char* const> words, std::size_t end);

/// Parses the arguments after a front command's name. Returns the exit code if the command need not
/// run because help was printed. Throws UsageError for an invalid command line.
std::optional<int> parse_words(CLI::App& app, std::span<const char* const> words);

}  // namespace anyaccel::cli
