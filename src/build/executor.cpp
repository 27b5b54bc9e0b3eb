#include "build/executor.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "anyaccel/error.h"
#include "base/file.h"
#include "build/cache.h"
#include "build/processes.h"
#include "build/progress.h"
#include "build/toolchain.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

/// Enough for the first errors; templates can fill megabytes.
constexpr std::size_t kMostOutput = 8000;

struct Job {
  std::string what;
  fs::path made;
  std::vector<std::string> words;
  fs::path log() const { return made.string() + ".log"; }
};

/// A command as it is after the private folder is gone.
std::string to_repeat(const Job& job) {
  auto words = job.words;
  for (auto& word : words)
    if (word == job.made || word == job.made.string() + ".d") word = "/dev/null";
  return shell_quoted(words);
}

/// A link wants its objects: all commands, in a folder of their own.
std::string to_repeat(const Plan& plan) {
  const auto below = plan.library.parent_path().string() + "/";
  std::string out = "cd \"$(mktemp -d)\"";
  const auto add = [&](std::vector<std::string> words) {
    for (auto& word : words)
      if (word.starts_with(below)) word.erase(0, below.size());
    out += " &&\n  " + shell_quoted(words);
  };
  for (const auto& step : plan.steps) add(step.words);
  add(plan.link);
  return out;
}

bool disk_is_full(const fs::path& folder, const std::string& said) {
  for (const int error : {ENOSPC, EDQUOT})
    if (said.find(std::strerror(error)) != std::string::npos) return true;
  const int error = write_error(folder, 1 << 16);
  return error == ENOSPC || error == EDQUOT;
}

void judge(const Job& job, int status, const ExecuteOptions& options, const std::string& repeat) {
  std::error_code error;
  const bool made = fs::exists(job.made, error);
  auto said = try_read_file(job.log()).value_or("");
  if (made && status == 0 && (said.empty() || !options.fatal_warnings)) {
    // Another compiler's warnings are nothing that a user of ours can mend.
    if (options.verbose) std::fputs(said.c_str(), stderr);
    return;
  }
  if (disk_is_full(job.made.parent_path(), said))
    throw Error(ErrorCode::io, "op cache",
                {.what = "the disk with " + job.made.parent_path().parent_path().string() + " is full",
                 .hint = "make room there, or set ANYACCEL_OP_CACHE to a folder of yours on a disk with room"});
  if (said.size() > kMostOutput) said = said.substr(0, kMostOutput) + "\n[...]\n";
  if (said.empty()) said = "(it said nothing)\n";
  const auto how =
      status > 128 ? "was ended by signal " + std::to_string(status - 128) : "ended with " + std::to_string(status);
  throw Error(
      ErrorCode::build_failed, "OpBuilder::load",
      {.what = job.what + " failed: the compiler " + how + " and said:\n" + said + "to repeat it:\n  " + repeat});
}

}  // namespace

void execute(const Plan& plan, const std::string& name, const ExecuteOptions& options) {
  std::vector<Job> jobs;
  for (const auto& step : plan.steps) jobs.push_back({"compiling " + step.source, step.object, step.words});
  Progress progress(name);
  ProcessGroup group;
  auto environment = build_environment();
  // Compilers that are killed leave their temporary files, so those go with the private folder.
  std::erase_if(environment, [](const auto& entry) { return entry.starts_with("TMPDIR="); });
  environment.push_back("TMPDIR=" + plan.library.parent_path().string());
  const auto start = [&](const Job& job) {
    auto own = environment;
    // Its configuration may name another compiler than the one that is in the key.
    if (job.words.size() > 1 && fs::path(job.words[0]).filename() == "ccache")
      own.push_back("CCACHE_COMPILER=" + job.words[1]);
    if (options.verbose) std::fprintf(stderr, "%s\n", shell_quoted(job.words).c_str());
    return group.start(job.words, own, job.log());
  };
  std::map<pid_t, const Job*> running;
  std::size_t begun = 0, done = 0;
  while (done < jobs.size()) {
    while (begun < jobs.size() && static_cast<int>(running.size()) < options.jobs) {
      const auto& job = jobs[begun++];
      running[start(job)] = &job;
    }
    progress.show("compiled " + std::to_string(done) + " of " + std::to_string(jobs.size()) + " sources");
    const auto ended = group.wait(200);
    const auto place = running.find(ended.process);
    if (place == running.end()) continue;
    judge(*place->second, ended.status, options, to_repeat(*place->second));
    running.erase(place);
    ++done;
  }
  const Job link{"linking " + name, plan.library, plan.link};
  const auto process = start(link);
  for (;;) {
    progress.show("linking");
    const auto ended = group.wait(200);
    if (ended.process == process) return judge(link, ended.status, options, to_repeat(plan));
  }
}

}  // namespace anyaccel::build
