#include "cli/front/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <string_view>

#include "anyaccel/error.h"
#include "base/log.h"
#include "base/nearest_name.h"
#include "base/untrusted_text.h"
#include "cli/front/front.h"

namespace anyaccel::cli {
namespace {

std::string with_dashes(std::string word) {
  if (!word.starts_with("--")) return word;
  const auto name_end =
      word.begin() + static_cast<std::ptrdiff_t>(std::min(word.find('='), word.size()));
  const bool is_name = std::all_of(word.begin(), name_end, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
  if (is_name) std::replace(word.begin(), name_end, '_', '-');
  return word;
}

/// The long options of `app` and of the subcommands on the command line.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options())
    for (const auto& name : option->get_lnames()) out.push_back("--" + name);
  for (const CLI::App* command : app.get_subcommands())
    for (auto& name : option_names(*command)) out.push_back(std::move(name));
  return out;
}

/// Error message for a missing or unknown subcommand of `app`. `unexpected` contains the unparsed
/// arguments, in reverse order.
std::string action_message(const CLI::App& app, const std::vector<std::string>& unexpected) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (!unexpected.empty())
    return "unknown action " + quoted_text(unexpected.back()) +
           did_you_mean(unexpected.back(), names);
  std::string list;
  for (const auto name : names) list.append(list.empty() ? "" : ", ").append(name);
  return "requires one of " + list;
}

}  // namespace

std::vector<std::string> parser_words(std::span<const char* const> words) {
  std::vector<std::string> out;
  bool options = true;
  for (const char* word : words) {
    options = options && std::string_view(word) != "--";
    out.push_back(options ? with_dashes(word) : word);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void format_help(CLI::App& command) {
  command.set_help_flag("-h,--help", "Print this help and exit");
  command.get_formatter()->column_width(34);
}

void reject_flag_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_expected_max() == 0) option->disable_flag_override();
  for (CLI::App* command : app.get_subcommands({})) reject_flag_values(*command);
}

std::size_t end_of_options(const CLI::App& app, std::span<const char* const> words) {
  std::size_t i = 0;
  for (; i < words.size() && words[i][0] == '-' && std::string_view(words[i]) != "--"; ++i) {
    const auto name = with_dashes(words[i]);
    const auto* option = app.get_option_no_throw(name);  // null for --name=value
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
  return std::min(i, words.size());
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  // CLI11 returns the unknown option and all arguments after it, in reverse order. Report the
  // option.
  const auto unexpected = app.remaining(/*recurse=*/true);
  const auto option = std::find_if(unexpected.begin(), unexpected.end(), [](const auto& word) {
    return word.size() > 1 && word[0] == '-';
  });
  if (option == unexpected.end() && app.get_require_subcommand_min() > 0 &&
      app.get_subcommands().empty())
    return action_message(app, unexpected);
  if (option == unexpected.end()) return error.what();
  const auto names = option_names(app);
  return "unknown option " + quoted_text(*option) +
         did_you_mean(option->substr(0, option->find('=')),
                      std::vector<std::string_view>(names.begin(), names.end()));
}

std::unique_ptr<CLI::App> make_parser(const std::string& name, const std::string& description) {
  auto app = std::make_unique<CLI::App>(description, "anyaccel " + name);
  format_help(*app);
  return app;
}

void add_log_level_option(CLI::App& app) {
  app.add_option_function<std::string>(
         "--log-level",
         [](const std::string& level) {
           try {
             set_log_level(parse_log_level(level));
           } catch (const Error& error) {
             throw CLI::ValidationError("--log-level", error.what());
           }
           ::setenv("ANYACCEL_LOG_LEVEL", level.c_str(), 1);
         },
         "AnyAccel's log level on standard error: error, warning, info or debug "
         "(ANYACCEL_LOG_LEVEL)")
      ->type_name("LEVEL");
}

void add_program_option(CLI::App& app) {
  app.add_option("PROGRAM", "Program and its arguments, after `--`")
      ->type_name("")
      ->expected(0, -1);
}

std::span<const char* const> program_words(const std::string& command,
                                           std::span<const char* const> words, std::size_t end) {
  if (end < words.size() && std::string_view(words[end]) == "--") ++end;
  if (end == words.size())
    throw UsageError(command + ": no program was given; add -- PROGRAM [ARGUMENT]...");
  return words.subspan(end);
}

std::optional<int> parse_words(CLI::App& app, std::span<const char* const> words) {
  reject_flag_values(app);
  try {
    app.parse(parser_words(words));
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0)
      throw UsageError(app.get_name().substr(sizeof("anyaccel")) + ": " +
                       usage_message(app, error));
    app.exit(error);
    std::cout.flush();
    return 0;
  }
}

}  // namespace anyaccel::cli
