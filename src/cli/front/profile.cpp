// `anyaccel profile`: runs a program whose Python processes record themselves, then generates the
// report page in a separate process.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/untrusted_text.h"
#include "cli/front/front.h"
#include "cli/front/parser.h"
#include "cli/front/python_hook.h"

namespace anyaccel::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kProfile = "profile";
constexpr unsigned kPeakSeconds = 120;

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
  app->add_option("PROGRAM", "Program and its arguments, after `--`")
      ->type_name("")
      ->expected(0, -1);
  app->add_option("-o,--output", options.folder,
                  "Folder for the results; replaced if it contains "
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
                "Do not measure the device's peak performance after the program has ended");
  app->add_option_function<std::string>(
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
  return app;
}

/// Empties the folder, or creates it. Throws if it contains anything but an earlier profile.
void prepare_folder(const fs::path& folder) {
  const auto refuse = [&](const std::string& got) {
    throw Error(ErrorCode::invalid_argument, kProfile,
                {.what = "the folder for the results cannot be used",
                 .got = got,
                 .want = "a new or empty folder, or one with an earlier profile",
                 .hint = "choose another folder with -o DIR"});
  };
  try {
    if (fs::exists(folder) && !fs::is_directory(folder))
      refuse(quoted_text(folder.string()) + ", a file");
    fs::create_directories(folder);
    const auto own = [](const std::string& name) {
      return name == "raw" || name == "profile.html" || name == "trace.json.gz" ||
             name == "summary.txt";
    };
    for (const auto& entry : fs::directory_iterator(folder))
      if (!own(entry.path().filename()))
        refuse(quoted_text(folder.string()) + " with " +
               quoted_text(entry.path().filename().string()));
    for (const char* name : {"raw", "profile.html", "trace.json.gz", "summary.txt"})
      fs::remove_all(folder / name);
    fs::create_directory(folder / "raw");
  } catch (const fs::filesystem_error& error) {
    refuse(quoted_text(folder.string()) + ": " + error.code().message());
  }
}

volatile std::sig_atomic_t program = 0;

void pass_on(int signal) {
  if (program > 0) ::kill(program, signal);
}

/// Runs the command `words` and waits until it exits. Returns the status from waitpid(). Throws if
/// the program cannot be started. `seconds`: time limit after which the program is killed; 0 means
/// no limit.
int run_and_wait(std::vector<std::string> words, unsigned seconds = 0) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int failure[2];
  if (::pipe2(failure, O_CLOEXEC) != 0)
    throw Error(ErrorCode::io, kProfile,
                {.what = "cannot create a pipe", .got = std::strerror(errno)});
  std::fflush(stdout);
  // The terminal's signals reach the program directly. Signals sent to this process are forwarded.
  struct sigaction pass {};
  pass.sa_handler = pass_on;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction before[4];
  const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  for (int i = 0; i < 4; ++i) ::sigaction(signals[i], i < 2 ? &ignore : &pass, &before[i]);
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 4; ++i) ::sigaction(signals[i], &before[i], nullptr);
    if (seconds > 0) ::alarm(seconds);
    ::execvp(arguments[0], arguments.data());
    const int reason = errno;
    static_cast<void>(!::write(failure[1], &reason, sizeof reason));
    ::_exit(127);
  }
  program = child;
  ::close(failure[1]);
  int reason = 0;
  ssize_t got = 0;
  do got = ::read(failure[0], &reason, sizeof reason);
  while (got < 0 && errno == EINTR);
  ::close(failure[0]);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  program = 0;
  for (int i = 0; i < 4; ++i) ::sigaction(signals[i], &before[i], nullptr);
  if (child < 0 || got == sizeof reason)
    throw Error(reason == ENOENT ? ErrorCode::not_found : ErrorCode::io, kProfile,
                {.what = "the program cannot be started",
                 .got = words[0] + ": " + std::strerror(child < 0 ? errno : reason)});
  return status;
}

/// The interpreter of a recorded process; "" if nothing was recorded.
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

/// Returns the program's exit code. If a signal killed the program, kills this process with the
/// same signal.
int end_like(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  std::fflush(stdout);
  std::signal(WTERMSIG(status), SIG_DFL);
  ::raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

}  // namespace

int run_profile(std::span<const char* const> arguments) {
  ProfileOptions options;
  const auto app = profile_parser(options);
  auto end = end_of_options(*app, arguments);
  if (const auto code = parse_words(*app, arguments.first(end))) return *code;
  if (end < arguments.size() && std::string_view(arguments[end]) == "--") ++end;
  if (end == arguments.size())
    throw UsageError("profile: no program was given; write -- PROGRAM [ARGUMENT]...");
  const std::vector<std::string> words(arguments.begin() + static_cast<std::ptrdiff_t>(end),
                                       arguments.end());
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

  const int status = run_and_wait(words);

  ::unsetenv("ANYACCEL_PROFILE_DIR");
  ::setenv("PYTHONPATH", python_path.c_str(), 1);
  const auto python = recorded_python(folder);
  if (python.empty())
    std::fprintf(stderr,
                 "anyaccel profile: nothing was recorded: no Python process of the program "
                 "imported torch\n");
  else if (!options.no_peak) {
    ::setenv("PYTHONPATH", (package + (python_path.empty() ? "" : ":" + python_path)).c_str(), 1);
    static_cast<void>(run_and_wait({python, "-m", "anyaccel.profiler.peak", folder}, kPeakSeconds));
    ::setenv("PYTHONPATH", python_path.c_str(), 1);
  }
  const int built = run_and_wait({python.empty() ? "python3" : python, builder, folder});
  if (status == 0 && !(WIFEXITED(built) && WEXITSTATUS(built) == 0) && !python.empty()) return 1;
  return end_like(status);
}

}  // namespace anyaccel::cli
