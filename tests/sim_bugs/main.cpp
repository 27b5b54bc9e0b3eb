// sim_bugs NAME bug|fixed: runs one of the programs. The simulator's environment variables, such as
// SIM_CHECK, apply.
//
// sim_bugs --all: runs each bug in its own process and all fixed versions in one process, and
// compares the checker's reports with the expected ones.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "anyaccel/sim.h"
#include "bug.h"

namespace anyaccel::sim_bugs {
namespace {

constexpr unsigned kSeconds = 120;

/// Some defective programs exit with an exception. Fixed versions must not.
int run(const Bug& bug, bool fixed) {
  try {
    get_accelerator();  // every AnyAccel program starts with this call
    bug.run(fixed);
    get_accelerator().synchronize(0);
    get_accelerator().synchronize(1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %.300s\n", bug.name, error.what());
    return 1;
  }
  return 0;
}

std::string content(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void prepare_child(const std::string& folder) {
  const int log = ::open((folder + "/log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(log, STDERR_FILENO);
  ::alarm(kSeconds);
  ::setenv("SIM_CHECK", "report", 1);
  ::setenv("SIM_CHECK_JSON", (folder + "/json").c_str(), 1);
  ::setenv("SIM_MEMORY", "256MiB", 1);
  ::setenv("DS_ACCELERATOR", "sim", 1);
}

/// Returns an empty string if the report is as expected, otherwise a description of the difference.
std::string judged(const Bug& bug, int status, const nlohmann::json& report) {
#ifdef __SANITIZE_ADDRESS__
  const bool crash = WIFEXITED(status) && WEXITSTATUS(status) == 1;
#else
  const bool crash = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
#endif
  const bool crashed = crash && std::strcmp(bug.kind, "host_access") == 0;
  if (!crashed && (!WIFEXITED(status) || WEXITSTATUS(status) > 1))
    return "exited with status " + std::to_string(status);
  if (!report.contains("problems")) return "has no report";
  const auto& problems = report["problems"];
  if (problems.empty()) return "is not detected";
  for (const auto& problem : problems)
    if (problem["kind"] != bug.kind) return "is reported as " + problem["kind"].get<std::string>();
  const auto& first = problems[0];
  const auto has = [&](const char* key, const char* text) {
    return first[key].get<std::string>().find(text) != std::string::npos;
  };
  if (!has("op", bug.op)) return "is attributed to the op " + first["op"].get<std::string>();
  if (!has("shape", bug.shape))
    return "is attributed to a tensor " + first["shape"].get<std::string>();
  const bool host_code = !has("stream", "of sim:");
  if (host_code && std::strcmp(bug.kind, "host_access") != 0) return "has no stream";
  for (const auto& frame : first["stack"])
    if (frame.get<std::string>().find("sim_bugs") != std::string::npos) return "";
  return "has no stack that leads to the program";
}

std::string try_bug(const Bug& bug, const std::string& folder) {
  std::remove((folder + "/json").c_str());
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    prepare_child(folder);
    std::exit(run(bug, /*fixed=*/false));
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  const auto report =
      nlohmann::json::parse(content(folder + "/json"), nullptr, /*allow_exceptions=*/false);
  return judged(bug, status, report);
}

/// Runs all fixed versions in one process, so that a fixed version that affects the following ones
/// is detected. Returns the number of wrong reports.
int try_fixed(const std::vector<Bug>& chosen, const std::string& folder) {
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    prepare_child(folder);
    int wrong = 0;
    for (const auto& bug : chosen) {
      const auto before = sim::problems().size();
      const bool failed = run(bug, /*fixed=*/true) != 0;
      const auto problems = sim::problems();
      if (failed || problems.size() != before) ++wrong;
      if (failed) std::printf("%s (fixed) fails\n", bug.name);
      for (auto i = before; i < problems.size(); ++i)
        std::printf("%s (fixed) is reported although it is correct\n%s\n", bug.name,
                    problems[i].message.c_str());
    }
    std::exit(wrong);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::printf("the fixed programs exited with status %d\n%s\n", status,
              content(folder + "/log").c_str());
  return 1;
}

int run_all(const std::string& part) {
  char folder[] = "/tmp/sim_bugs.XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  std::vector<Bug> chosen;
  for (const auto& bug : bugs())
    if (std::string(bug.name).find(part) != std::string::npos) chosen.push_back(bug);
  int wrong = try_fixed(chosen, folder);
  for (const auto& bug : chosen) {
    const auto fault = try_bug(bug, folder);
    if (fault.empty()) continue;
    ++wrong;
    std::printf("%s %s\n%s\n", bug.name, fault.c_str(),
                content(std::string(folder) + "/log").c_str());
  }
  for (const char* file : {"/log", "/json"}) std::remove((std::string(folder) + file).c_str());
  ::rmdir(folder);
  std::printf("%zu bugs and their fixed versions, %d wrong reports\n", chosen.size(), wrong);
  return chosen.empty() || wrong != 0 ? 1 : 0;
}

}  // namespace
}  // namespace anyaccel::sim_bugs

int main(int argc, char** argv) {
  using namespace anyaccel::sim_bugs;
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--all") return run_all(argc > 2 ? argv[2] : "");
  for (const auto& bug : bugs())
    if (first == bug.name && argc == 3) return run(bug, std::strcmp(argv[2], "fixed") == 0);
  std::printf("usage: sim_bugs NAME bug|fixed, or sim_bugs --all [PART]\n");
  for (const auto& bug : bugs()) std::printf("  %-28s %s\n", bug.name, bug.kind);
  return 2;
}
