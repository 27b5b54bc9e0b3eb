#include "build/executor.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "build/cache.h"
#include "build/processes.h"
#include "build/progress.h"
#include "build/toolchain.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

/// Enough for the first errors. Template errors can produce megabytes of output.
constexpr std::size_t kMaxShown = 8000;
/// Compiling LibTorch's headers writes tens of MiB. If less space is free, a silent failure is
/// probably caused by a full disk.
constexpr std::uintmax_t kLittleRoom = 64 << 20;

struct Job {
  std::string what;
  fs::path made;
  std::vector<std::string> command;
  std::unique_ptr<ProgramOutput> output = std::make_unique<ProgramOutput>();
};

/// Returns the command without references to the private folder, because that folder is deleted.
std::string to_repeat(const Job& job) {
  auto command = job.command;
  for (auto& word : command)
    if (word == job.made || word == job.made.string() + ".d") word = "/dev/null";
  return shell_quoted(command);
}

/// Returns all commands in the plan, rewritten to run in a new folder. The link command alone would
/// fail, because the object files are deleted.
std::string to_repeat(const Plan& plan) {
  const auto below = plan.library.parent_path().string() + "/";
  std::string out = "cd \"$(mktemp -d)\"";
  const auto add = [&](std::vector<std::string> command) {
    for (auto& word : command)
      if (word.starts_with(below)) word.erase(0, below.size());
    out += " &&\n  " + shell_quoted(command);
  };
  for (const auto& step : plan.steps) add(step.command);
  add(plan.link);
  return out;
}

/// Returns evidence that the disk is full, or an empty string.
std::string full_disk(const fs::path& folder, int status, const std::string& said) {
  if (const auto line = full_disk_line(said); !line.empty())
    return "the compiler printed " + quoted_text(line, 500);
  const int error = write_error(folder, 1 << 16);
  if (error == ENOSPC || error == EDQUOT) return std::strerror(error);
  std::error_code ignored;
  const auto room = fs::space(folder, ignored);
  // A linker that maps its output is killed silently by SIGBUS if the disk is full.
  const bool silent = said.empty() || status > 128 || said.find("Bus error") != said.npos;
  if (silent && !ignored && room.available < kLittleRoom)
    return "little space is left, and no other cause was reported";
  return {};
}

void judge(const Job& job, int status, const ExecuteOptions& options, const std::string& repeat) {
  std::error_code error;
  const bool made = fs::exists(job.made, error);
  const auto said = job.output->text();
  if (made && status == 0 && (said.empty() || !options.fatal_warnings)) {
    // Hide warnings by default: compilers differ in what they warn about, and users cannot fix
    // AnyAccel's sources.
    if (options.verbose) std::fputs(said.c_str(), stderr);
    return;
  }
  const auto how = status > 128 ? "was killed by signal " + std::to_string(status - 128)
                                : "exited with code " + std::to_string(status);
  const auto folder = job.made.parent_path();
  if (const auto why = full_disk(folder, status, said); !why.empty()) {
    const auto room = fs::space(folder, error);
    throw Error(
        ErrorCode::io, "op cache",
        {.what = job.what + " failed because the disk or a quota is full: " + why +
                 "; the compiler " + how +
                 (error ? std::string()
                        : ", and " + std::to_string(room.available >> 20) + " MiB are free") +
                 " in " + folder.parent_path().string(),
         .hint = "free space there, or set ANYACCEL_OP_CACHE to a folder of your own on a disk "
                 "with free space"});
  }
  throw Error(ErrorCode::build_failed, "OpBuilder::load",
              {.what = job.what + " failed: the compiler " + how + " and printed:\n" +
                       (said.empty() ? "(no output)" : printable_text(said, kMaxShown)) +
                       (said.ends_with('\n') ? "" : "\n") + "to reproduce it:\n  " + repeat});
}

}  // namespace

std::string full_disk_line(const std::string& text) {
  // Compilers run with LC_ALL=C and print these messages. strerror() may return a translation.
  for (const std::string_view message :
       {"No space left on device", "Disk quota exceeded", "Quota exceeded"})
    if (const auto at = text.find(message); at != std::string::npos) {
      const auto begin =
          text.rfind('\n', at) + 1;  // 0 for the first line, where rfind() returns npos
      return text.substr(begin, text.find('\n', at) - begin);
    }
  return {};
}

void execute(const Plan& plan, const std::string& name, const ExecuteOptions& options) {
  std::vector<Job> jobs;
  for (const auto& step : plan.steps)
    jobs.push_back(
        {.what = "compiling " + step.source, .made = step.object, .command = step.command});
  Progress progress(name);
  ProcessGroup group;
  auto environment = build_environment();
  // Killed compilers leave their temporary files behind. Put these files in the private folder, so
  // that they are deleted with it.
  std::erase_if(environment, [](const auto& entry) { return entry.starts_with("TMPDIR="); });
  environment.push_back("TMPDIR=" + plan.library.parent_path().string());
  const auto start = [&](const Job& job) {
    auto own = environment;
    // ccache's configuration may select a different compiler from the one in the key.
    if (job.command.size() > 1 && fs::path(job.command[0]).filename() == "ccache")
      own.push_back("CCACHE_COMPILER=" + job.command[1]);
    if (options.verbose) std::fprintf(stderr, "%s\n", shell_quoted(job.command).c_str());
    return group.start(job.command, own, *job.output);
  };
  std::map<pid_t, const Job*> running;
  std::size_t begun = 0, done = 0;
  while (done < jobs.size()) {
    while (begun < jobs.size() && static_cast<int>(running.size()) < options.jobs) {
      const auto& job = jobs[begun++];
      running[start(job)] = &job;
    }
    std::string text =
        "compiled " + std::to_string(done) + " of " + std::to_string(jobs.size()) + " sources";
    for (const auto& [process, job] : running)
      text += (process == running.begin()->first ? "; now " : ", ") +
              job->what.substr(sizeof "compiling");
    progress.work_on(text);
    const auto ended = group.wait(200);
    const auto place = running.find(ended.process);
    if (place == running.end()) continue;
    judge(*place->second, ended.status, options, to_repeat(*place->second));
    running.erase(place);
    ++done;
  }
  const Job link{.what = "linking " + name, .made = plan.library, .command = plan.link};
  const auto process = start(link);
  for (;;) {
    progress.work_on("linking");
    const auto ended = group.wait(200);
    if (ended.process == process) return judge(link, ended.status, options, to_repeat(plan));
  }
}

}  // namespace anyaccel::build
