// `anyaccel run`: runs a program, by default as it is; with --as-cuda, a Python hook redirects its
// use of CUDA to the accelerator of this process.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "cli/front/front.h"
#include "cli/front/parser.h"
#include "cli/front/python_hook.h"

namespace anyaccel::cli {
namespace {

constexpr const char* kRun = "run";

struct RunOptions {
  bool as_cuda = false;
  std::string pretend;
  std::string report;
  bool quiet = false;
};

std::unique_ptr<CLI::App> run_parser(RunOptions& options) {
  auto app = make_parser(
      kRun,
      "Run a program on this machine's accelerator. With --as-cuda, a Python program that was "
      "written for CUDA runs unchanged on any accelerator: its devices, torch.cuda, \"nccl\" and "
      "the rest are redirected, also in child processes, and a report at exit says what was "
      "redirected. Set DS_ACCELERATOR to select the accelerator. Example: anyaccel run --as-cuda "
      "-- python3 train.py. The exit code is the program's.");
  add_program_option(*app);
  app->add_flag("--as-cuda", options.as_cuda,
                "Redirect CUDA to the accelerator; needed for the options below");
  app->add_option("--pretend", options.pretend,
                  "Name, compute capability, processors and memory that torch.cuda reports, for "
                  "example \"NVIDIA H100\"; default: those of the accelerator")
      ->type_name("NAME");
  app->add_option("--report", options.report,
                  "Write the report to this file as JSON instead of to standard error")
      ->type_name("FILE");
  app->add_flag("--quiet", options.quiet, "Do not print the report");
  add_log_level_option(*app);
  return app;
}

void use_as_cuda(const RunOptions& options) {
  if (use_python_hook(kRun).empty())
    throw Error(ErrorCode::unavailable, kRun,
                {.what = "AnyAccel's Python package is missing",
                 .hint = "reinstall AnyAccel with its Python package"});
  ::setenv("ANYACCEL_AS_CUDA", "1", 1);
  const auto set = [](const char* variable, const std::string& value) {
    if (!value.empty()) ::setenv(variable, value.c_str(), 1);
  };
  set("ANYACCEL_AS_CUDA_PRETEND", options.pretend);
  if (!options.report.empty())
    set("ANYACCEL_AS_CUDA_REPORT", std::filesystem::absolute(options.report).string());
  set("ANYACCEL_AS_CUDA_QUIET", options.quiet ? "1" : "");
}

}  // namespace

int run_run(std::span<const char* const> arguments) {
  RunOptions options;
  const auto app = run_parser(options);
  const auto end = end_of_options(*app, arguments);
  if (const auto code = parse_words(*app, arguments.first(end))) return *code;
  const auto words = program_words(kRun, arguments, end);
  if (!options.as_cuda && (!options.pretend.empty() || !options.report.empty() || options.quiet))
    throw UsageError("run: --pretend, --report and --quiet require --as-cuda");
  std::vector<const char*> program(words.begin(), words.end());
  program.push_back(nullptr);
  if (options.as_cuda) use_as_cuda(options);
  std::fflush(stdout);
  ::execvp(program[0], const_cast<char* const*>(program.data()));
  throw Error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, kRun,
              {.what = std::string("cannot start the program ") + program[0] + ": " +
                       std::strerror(errno)});
}

}  // namespace anyaccel::cli
