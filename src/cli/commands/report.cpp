#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <exception>
#include <iostream>
#include <memory>

#include "anyaccel/export.h"
#include "cli/commands/commands.h"
#include "cli/commands/report/report.h"

namespace anyaccel::cli {
namespace {

std::size_t output_width() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return std::clamp<std::size_t>(known ? size.ws_col : 100, 80, 140);
}

}  // namespace

void add_report(CLI::App& command, Context& context) {
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print machine-readable output (one JSON object)");
  command.footer(
      "Exit code: 0 if an accelerator was selected, 1 if none could be (the report says why).");
  command.callback([json, &context] {
    const Json report = collect_report();
    // Replace invalid UTF-8, which names and paths of the machine may contain.
    if (*json)
      std::cout << report.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    else
      std::cout << report_text(report, output_width());
    context.exit_code = report["accelerator"].is_null() ? 1 : 0;
  });
}

}  // namespace anyaccel::cli

/// Creates the report about this process, for anyaccel.report() in Python. `versions` is a JSON
/// object with additional versions. On success, calls `take` with the report as JSON and then as
/// text, and returns 0. On failure, calls `take` with the error message and returns 1.
extern "C" ANYACCEL_API int anyaccel_report(const char* versions, std::size_t width,
                                            void (*take)(const char*)) {
  using namespace anyaccel::cli;
  try {
    Json report = collect_report();
    report["versions"].update(Json::parse(versions));
    take(report.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    take(report_text(report, width).c_str());
    return 0;
  } catch (const std::exception& error) {
    take(error.what());
    return 1;
  }
}
