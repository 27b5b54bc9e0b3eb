// `anyaccel profile`: runs a program whose Python processes record themselves, then generates the
// report page in a separate process.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/untrusted_text.h"
#include "cli/front/front.h"
#include "cli/front/parser.h"
#include "cli/front/profile_child.h"
#include "cli/front/python_hook.h"

namespace anyaccel::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kProfile = "profile";
constexpr unsigned kPeakSeconds = 120;
/// Only folders with this file are replaced, because other programs also use names such as `raw`.
constexpr const char* kMarker = ".anyaccel-profile";
/// Runs a Python script. Unlike `python -m` and `-c`, it does not import modules from the current
/// folder, which may belong to another user.
constexpr const char* kRunScript =
    "import sys; sys.path = [path for path in sys.path if path]; import runpy; sys.argv.pop(0); "
    "runpy.run_path(sys.argv[0], run_name='__main__')";

struct ProfileOptions {
  std::string folder = "anyaccel-profile";
  double window = 2;
  std::uint64_t max_events = 1'000'000;
  bool no_lines = false;
  bool no_peak = false;
};

std::unique_ptr<CLI::App> profile_parser(ProfileOptions& options) {
  auto app = make_parser(
      kProfile,
      "Run a Python program that uses torch and record its ops, kernels, copies, collectives, "
      "ranges and memory, on any accelerator and in all of its processes. Writes the page "
      "profile.html, the trace trace.json.gz and the files they are made from, and prints a "
      "summary. Examples: anyaccel profile -- python3 train.py; anyaccel profile -- anyaccel "
      "launch --num_gpus 2 train.py. The exit code is the program's.");
  add_program_option(*app);
  app->add_option("-o,--output", options.folder,
                  "Results folder; replaced if it contains "
                  "an earlier profile")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--window", options.window,
                  "Seconds of recording per file; a killed program loses only its last window")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  app->add_option("--max-events", options.max_events,
                  "Number of events per process after which fewer and fewer windows are recorded")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->capture_default_str();
  app->add_flag("--no-lines", options.no_lines, "Do not record source lines");
  app->add_flag("--no-peak", options.no_peak,
                "Do not measure the device's peak performance after the program has exited");
  add_log_level_option(*app);
  return app;
}

/// Empties the folder, or creates it. Throws if it contains anything but an earlier profile.
void prepare_folder(const fs::path& folder) {
  const auto refuse = [&](const std::string& got) {
    throw Error(ErrorCode::invalid_argument, kProfile,
                {.what = "the results folder cannot be used",
                 .got = got,
                 .want = "a new or empty folder, or one with an earlier profile",
                 .hint = "choose another folder with -o DIR"});
  };
  try {
    if (fs::exists(folder) && !fs::is_directory(folder))
      refuse(quoted_text(folder.string()) + ", a file");
    fs::create_directories(folder);
    // A killed report process leaves a .part file behind. The folder with the marker is deleted
    // last.
    const std::vector<std::string> own{
        "profile.html",       "trace.json.gz",    "summary.txt", "profile.html.part",
        "trace.json.gz.part", "summary.txt.part", "raw"};
    const bool marked = fs::is_regular_file(folder / "raw" / kMarker);
    for (const auto& entry : fs::directory_iterator(folder))
      if (!marked || std::find(own.begin(), own.end(), entry.path().filename()) == own.end())
        refuse(quoted_text(folder.string()) + " with " +
               quoted_text(entry.path().filename().string()));
    for (const auto& name : own) fs::remove_all(folder / name);
    fs::create_directory(folder / "raw");
    write_file_atomically(folder / "raw" / kMarker, "`anyaccel profile` replaces this folder.\n");
  } catch (const fs::filesystem_error& error) {
    refuse(quoted_text(folder.string()) + ": " + error.code().message());
  }
}

/// Returns whether any process was recorded.
bool recorded(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "raw", ignored))
    if (entry.is_directory(ignored)) return true;
  return false;
}

/// Python interpreter of one of the recorded processes; "" if none of their interpreters exists on
/// this host, for example because the processes ran in a container.
std::string recorded_python(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "raw", ignored)) {
    const auto text = try_read_file(entry.path() / "process.json").value_or("");
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("executable") || !json["executable"].is_string())
      continue;
    std::string python = json["executable"];
    if (::access(python.c_str(), X_OK) == 0) return python;
  }
  return {};
}

}  // namespace

int run_profile(std::span<const char* const> arguments) {
  ProfileOptions options;
  const auto app = profile_parser(options);
  const auto end = end_of_options(*app, arguments);
  if (const auto code = parse_words(*app, arguments.first(end))) return *code;
  const auto program = program_words(kProfile, arguments, end);
  const std::vector<std::string> words(program.begin(), program.end());
  const fs::path folder = fs::absolute(options.folder);
  const std::string python_path = ::getenv("PYTHONPATH") == nullptr ? "" : ::getenv("PYTHONPATH");
  const auto package = use_python_hook(kProfile);
  if (package.empty())
    throw Error(ErrorCode::unavailable, kProfile,
                {.what = "AnyAccel's Python package is missing",
                 .hint = "reinstall AnyAccel with its Python package"});
  const auto builder = package + "/anyaccel/profiler/report";
  need_file(builder, kProfile);
  prepare_folder(folder);
  ::setenv("ANYACCEL_PROFILE_DIR", folder.c_str(), 1);
  ::setenv("ANYACCEL_PROFILE_WINDOW", std::to_string(options.window).c_str(), 1);
  ::setenv("ANYACCEL_PROFILE_MAX_EVENTS", std::to_string(options.max_events).c_str(), 1);
  ::setenv("ANYACCEL_PROFILE_LINES", options.no_lines ? "0" : "1", 1);

  const int status = run_and_wait(words, {.what = "the program cannot be started"});

  ::unsetenv("ANYACCEL_PROFILE_DIR");
  ::setenv("PYTHONPATH", python_path.c_str(), 1);
  if (!recorded(folder)) {
    std::fprintf(stderr,
                 "anyaccel profile: nothing was recorded: no Python process of the program "
                 "imported torch\n");
    return end_like(status);
  }
  const auto python = recorded_python(folder);
  // If the program was told to end, this process may be killed soon. Skip the measurement, because
  // the page matters more.
  if (!python.empty() && !options.no_peak && !WIFSIGNALED(status) && !asked_to_end()) {
    ::setenv("PYTHONPATH", (package + (python_path.empty() ? "" : ":" + python_path)).c_str(), 1);
    run_afterwards({python, "-c", kRunScript, package + "/anyaccel/profiler/peak.py", folder},
                   {.what = "the device's peak performance cannot be measured"}, kPeakSeconds);
    ::setenv("PYTHONPATH", python_path.c_str(), 1);
  }
  const bool built =
      run_afterwards({python.empty() ? "python3" : python, builder, folder},
                     {.what = "the page cannot be built",
                      .hint = "run `python3 -m anyaccel.profiler " + folder.string() + "`"});
  if (status == 0 && !built) return 1;
  return end_like(status);
}

}  // namespace anyaccel::cli
