#include <c10/util/Exception.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/error.h"
#include "anyaccel/version.h"
#include "base/log.h"
#include "base/nearest_name.h"
#include "base/untrusted_text.h"
#include "cli/commands/commands.h"

namespace anyaccel::cli {
namespace {

/// Options may be written with '_' for '-', as DeepSpeed's users do: `--max_new_tokens` is `--max-new-tokens`.
std::string with_dashes(std::string argument) {
  if (argument.rfind("--", 0) != 0) return argument;
  const auto name_end = argument.begin() + static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size()));
  const bool is_name = std::all_of(argument.begin(), name_end,
                                   [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; });
  if (is_name) std::replace(argument.begin(), name_end, '_', '-');
  return argument;
}

/// CLI11 wants its arguments in reverse order and without the program's name.
std::vector<std::string> arguments(int argc, const char* const* argv) {
  std::vector<std::string> out;
  bool options = true;
  for (int i = 1; i < argc; ++i) {
    options = options && std::string_view(argv[i]) != "--";
    out.push_back(options ? with_dashes(argv[i]) : argv[i]);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void apply_log_level(const std::string& text) {
  try {
    set_log_level(parse_log_level(text));
  } catch (const Error& error) {
    throw CLI::ValidationError("--log-level", error.what());
  }
}

void add_commands(CLI::App& app, Context& context) {
  app.add_option_function<std::string>("--log-level", apply_log_level,
                                       "What to say on standard error: error, warning, info or debug")
      ->trigger_on_parse();
  app.set_version_flag("--version", "anyaccel " ANYACCEL_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
#define ANYACCEL_COMMAND(name, text, summary) add_##name(*app.add_subcommand(text, summary), context);
#include "cli/module_commands.inc"
#undef ANYACCEL_COMMAND
  for (CLI::App* command : app.get_subcommands({})) {
    command->set_help_flag("-h,--help", "Print this help and exit");
    command->get_formatter()->column_width(34);
    std::string footer = command->get_footer();
    footer.append(footer.empty() ? "" : "\n")
        .append("For every command: --log-level error|warning|info|debug, and DS_ACCELERATOR=name.");
    command->footer(footer);
  }
}

int fail(const std::string& message, int exit_code = 1) {
  std::cout.flush();
  std::cerr << "anyaccel: error: " << printable_text(message) << '\n';
  return exit_code;
}

/// Options of the given command and of the program.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> out;
  const auto add = [&](const CLI::App& one) {
    for (const CLI::Option* option : one.get_options())
      for (const auto& name : option->get_lnames()) out.push_back("--" + name);
  };
  for (const CLI::App* command : app.get_subcommands()) add(*command);
  add(app);
  return out;
}

int usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    const int code = app.exit(error);
    std::cout.flush();
    return code;
  }
  std::string command = "anyaccel";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  std::string message = error.what();
  // CLI11 lists all words after an unknown option, last one first: the option itself is what is wrong.
  const auto unexpected = app.remaining(/*recurse=*/true);
  const auto option =
      std::find_if(unexpected.begin(), unexpected.end(), [](const auto& word) { return word[0] == '-'; });
  const auto names = option_names(app);
  if (option != unexpected.end())
    message =
        "unknown option " + quoted_text(*option) +
        did_you_mean(option->substr(0, option->find('=')), std::vector<std::string_view>(names.begin(), names.end()));
  std::cerr << command << ": error: " << printable_text(message) << "\nTry '" << command << " --help'.\n";
  return 2;
}

}  // namespace

std::string for_output(std::string_view text) {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  return terminal ? terminal_text(text) : std::string(text);
}

}  // namespace anyaccel::cli

/// What the front program calls. `argv[1]` is the subcommand. Returns the process's exit code.
extern "C" __attribute__((visibility("default"))) int anyaccel_command_main(int argc, const char* const* argv) {
  using namespace anyaccel::cli;
  Context context;
  CLI::App app("Write a program that trains or runs a large language model once, run it on any accelerator",
               "anyaccel");
  try {
    add_commands(app, context);
    app.parse(arguments(argc, argv));
    return context.exit_code;
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  } catch (const anyaccel::Error& error) {
    // An argument that makes no sense is wrong usage, whoever notices it.
    return fail(error.what(), error.code() == anyaccel::ErrorCode::invalid_argument ? 2 : 1);
  } catch (const c10::Error& error) {
    // Without the stack trace, which is of no use to who typed the command.
    return fail(std::string("[LibTorch] ") + error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return fail("[anyaccel] host memory is exhausted");
  } catch (const std::exception& error) {
    return fail(std::string("[anyaccel] ") + error.what());
  } catch (...) {
    return fail("[anyaccel] an exception that is not a std::exception came from a library");
  }
}
