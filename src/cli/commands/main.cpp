#include <c10/util/Exception.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

#include "anyaccel/error.h"
#include "anyaccel/export.h"
#include "anyaccel/version.h"
#include "base/log.h"
#include "base/untrusted_text.h"
#include "cli/commands/commands.h"
#include "cli/front/parser.h"

namespace anyaccel::cli {
namespace {

void apply_log_level(const std::string& text) {
  try {
    set_log_level(parse_log_level(text));
  } catch (const Error& error) {
    throw CLI::ValidationError("--log-level", error.what());
  }
}

void add_commands(CLI::App& app, Context& context) {
  app.add_option_function<std::string>("--log-level", apply_log_level,
                                       "Log level on standard error: error, warning, info or debug")
      ->trigger_on_parse();
  app.set_version_flag("--version", "anyaccel " ANYACCEL_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
#define ANYACCEL_COMMAND(name, text, summary) \
  add_##name(*app.add_subcommand(text, summary), context);
#include "cli/module_commands.inc"
#undef ANYACCEL_COMMAND
  for (CLI::App* command : app.get_subcommands({})) {
    format_help(*command);
    std::string footer = command->get_footer();
    footer.append(footer.empty() ? "" : "\n")
        .append(
            "For every command: --log-level error|warning|info|debug, and DS_ACCELERATOR=name.");
    command->footer(footer);
  }
}

int fail(const std::string& message, int exit_code = 1) {
  std::cout.flush();
  std::cerr << "anyaccel: error: " << printable_text(message) << '\n';
  return exit_code;
}

int usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    const int code = app.exit(error);
    std::cout.flush();
    return code;
  }
  std::string command = "anyaccel";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  std::cerr << command << ": error: " << printable_text(usage_message(app, error)) << "\nTry '"
            << command << " --help'.\n";
  return 2;
}

}  // namespace

std::string for_output(std::string_view text) {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  return terminal ? terminal_text(text) : std::string(text);
}

}  // namespace anyaccel::cli

/// Entry point for the front program. `argv[1]` is the subcommand. Returns the process's exit code.
extern "C" ANYACCEL_API int anyaccel_command_main(int argc, const char* const* argv) {
  using namespace anyaccel::cli;
  Context context;
  CLI::App app("Write LLM training and inference programs once, and run them on any accelerator",
               "anyaccel");
  try {
    add_commands(app, context);
    reject_flag_values(app);
    app.parse(parser_words({argv + 1, argv + argc}));
    return context.exit_code;
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  } catch (const anyaccel::Error& error) {
    // An invalid argument counts as wrong usage, even if a library detects it.
    return fail(error.what(), error.code() == anyaccel::ErrorCode::invalid_argument ? 2 : 1);
  } catch (const c10::Error& error) {
    // Omit the stack trace, which does not help users.
    return fail(std::string("[LibTorch] ") + error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return fail("[anyaccel] out of host memory");
  } catch (const std::exception& error) {
    return fail(std::string("[anyaccel] ") + error.what());
  } catch (...) {
    return fail("[anyaccel] a library threw an exception that is not a std::exception");
  }
}
