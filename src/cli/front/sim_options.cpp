#include "cli/front/sim_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "anyaccel/error.h"
#include "base/log.h"
#include "base/untrusted_text.h"

namespace anyaccel::cli {

namespace {

struct SimOption {
  const char* name;
  const char* variable;
  const char* type;
  const char* help;
};
constexpr SimOption kSimOptions[] = {
    {"--devices", "SIM_DEVICES", "N", "Number of devices"},
    {"--memory", "SIM_MEMORY", "BYTES", "Memory per device, for example 512MiB"},
    {"--stands-in-for", "SIM_STANDS_IN_FOR", "NAME", "Backend or device type to replace"},
    {"--faults", "SIM_FAULTS", "LIST", "Faults to inject and when, for example alloc@3"},
    {"--check", "SIM_CHECK", "report|abort",
     "Detect device misuse, and report it or abort the program"},
    {"--json", "SIM_CHECK_JSON", "FILE", "Write the reports as JSON; implies --check report"},
    {"--suppressions", "SIM_CHECK_SUPPRESSIONS", "FILE",
     "Ignore the known problems listed in this file; implies --check report"},
    {"--check-extra", "SIM_CHECK_EXTRA", "LIST",
     "Extra checks: leaks, uninitialized, or both separated by a comma; implies --check report"},
    {"--error-exitcode", "SIM_CHECK_EXIT_CODE", "N",
     "Exit code if the program succeeds but problems were reported; implies --check report"},
    {"--log-level", "ANYACCEL_LOG_LEVEL", "LEVEL",
     "AnyAccel's log level on standard error: error, warning, info or debug"},
};

/// Sets the environment variable for an option. The simulated program reads the variable.
void set_option(const SimOption& option, const std::string& value) {
  const std::string_view name = option.name;
  if (name == "--check" && value != "report" && value != "abort")
    throw CLI::ValidationError(option.name, "expected report or abort, got " + quoted_text(value));
  if (name == "--log-level") try {
      set_log_level(parse_log_level(value));
    } catch (const Error& error) {
      throw CLI::ValidationError(option.name, error.what());
    }
  ::setenv(option.variable, value.c_str(), /*overwrite=*/1);
}

}  // namespace

void add_sim_options(CLI::App& app, std::initializer_list<std::string_view> without) {
  // Only for the help text. The program's arguments are not parsed.
  app.add_option("PROGRAM", "Program and its arguments, after `--`")
      ->type_name("")
      ->expected(0, -1);
  for (const auto& option : kSimOptions)
    if (std::find(without.begin(), without.end(), option.name) == without.end())
      app.add_option_function<std::string>(
             option.name, [&option](const std::string& value) { set_option(option, value); },
             std::string(option.help) + " (" + option.variable + ")")
          ->type_name(option.type);
}

std::vector<std::string> given_sim_options(const CLI::App& app) {
  std::vector<std::string> words;
  for (const auto& option : kSimOptions) {
    const auto* given = app.get_option_no_throw(option.name);
    if (given == nullptr || given->count() == 0) continue;
    words.emplace_back(option.name);
    words.push_back(given->as<std::string>());
  }
  return words;
}

}  // namespace anyaccel::cli
