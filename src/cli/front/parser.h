// CLI11, as all subcommands use it except `launch`: option names may be written with `_` or `-`,
// and the messages name the nearest option. Compiled into the front program and into the command
// modules.
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

/// The words in the form that CLI11 parses: last one first, and with `-` for `_` in the names of
/// options. The words after
/// `--` are unchanged.
std::vector<std::string> parser_words(std::span<const char* const> words);

/// Gives a command the help option and the column width that all commands have.
void format_help(CLI::App& command);

/// Makes `--flag=value` an error for all flags of `app` and of its subcommands.
void reject_flag_values(CLI::App& app);

/// Index of the first word that is neither an option of `app` nor an option's value. For commands
/// that run another program, whose words must not be parsed.
std::size_t end_of_options(const CLI::App& app, std::span<const char* const> words);

/// One line that says what is wrong with the command line that `app` failed to parse.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error);

/// The parser of a front command; `name` as users write it, for example "topology".
std::unique_ptr<CLI::App> make_parser(const std::string& name, const std::string& description);

/// Parses the words after a front command's name. Returns the exit code if nothing is left to do
/// because help was printed. Throws UsageError for a wrong command line.
std::optional<int> parse_words(CLI::App& app, std::span<const char* const> words);

}  // namespace anyaccel::cli
