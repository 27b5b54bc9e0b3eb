#include "worker.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>

#include <memory>

#include "anyaccel/accelerator.h"
#include "anyaccel/plugins.h"
#include "peers.h"
#include "pipe.h"

namespace anyaccel::conformance {

namespace {

/// Time limit for initializing the accelerator, which may load a vendor's software stack.
constexpr double kStartSeconds = 120;

bool same_file(const std::string& a, const std::filesystem::path& b) {
  std::error_code no_such_file;
  return !a.empty() && std::filesystem::equivalent(a, b, no_such_file);
}

/// Registers all plugins in the folder that contains `path`, which is a plugin's library or its
/// text file. Returns the backend name of that plugin.
std::string find_plugin(const std::string& path) {
  const auto file = std::filesystem::absolute(path).lexically_normal();
  add_plugin_folder(file.parent_path());
  for (const auto& plugin : plugins()) {
    if (!same_file(plugin.library, file) && !same_file(plugin.path, file)) continue;
    if (plugin.state != PluginState::refused) return plugin.name;
    throw Error(ErrorCode::unavailable, "conformance",
                {.what = "the plugin was rejected: " + plugin.reason, .got = path});
  }
  throw Error(
      ErrorCode::not_found, "conformance",
      {.what = "no plugin found", .got = path, .want = "a plugin's library next to its text file"});
}

Accelerator& start(const Options& options) {
  auto backend = options.backend;
  for (const auto& path : options.plugins) {
    const auto name = find_plugin(path);
    if (backend.empty()) backend = name;
  }
  if (!backend.empty()) set_accelerator(backend);
  return get_accelerator();
}

/// Restores the current device and streams, so that a case cannot affect the next one.
void tidy(Accelerator& accelerator) noexcept try {
  accelerator.synchronize();
  for (DeviceIndex i = accelerator.device_count() - 1; i >= 0; --i) {
    accelerator.set_device(i);
    accelerator.set_stream(accelerator.default_stream(i));
  }
} catch (const std::exception&) {  // the next case reports the error
}

std::string& notes() {
  static thread_local std::string text;
  return text;
}

Result run_one(const Case& item, Accelerator& accelerator, const RunCase& run_case) {
  Result result{item.suite, item.name, item.grade, Outcome::passed, {}, 0};
  const auto failed = [&](const std::string& message) {
    result.outcome = Outcome::failed;
    result.message = message.empty() ? "exception without a message" : message;
  };
  notes().clear();
  try {
    run_case(item, accelerator);
    result.message = notes();
  } catch (const Skip& reason) {
    result.outcome = Outcome::skipped;
    result.message = reason.what();
  } catch (const Error& error) {
    failed(error.what());
    if (error.code() == ErrorCode::unsupported && item.grade != Grade::required)
      result.outcome = Outcome::skipped;
  } catch (const Failure& failure) {
    failed(failure.what());
  } catch (const c10::Error& error) {
    failed(std::string("LibTorch error: ") + error.what_without_backtrace());
  } catch (const std::exception& error) {
    failed(std::string("exception of a type other than anyaccel::Error: ") + error.what());
  } catch (...) {
    failed("exception of a type other than std::exception");
  }
  return result;
}

Subject look_at(Accelerator& accelerator) {
  Subject subject{accelerator.name(), {}, accelerator.device_count()};
  try {
    subject.device = accelerator.device_properties(0).name;
  } catch (const std::exception&) {  // cases of the suite "devices" report the error
  }
  return subject;
}

/// Runs a case in one of its additional processes, which has not initialized the accelerator yet.
Result run_alone(const Case& item, const Options& options, const RunCase& run_case) {
  try {
    if (item.before_start) item.before_start();
    return run_one(item, start(options), run_case);
  } catch (const std::exception& error) {
    return {item.suite, item.name, item.grade, Outcome::failed, error.what(), 0};
  }
}

void run_cases(int out, const std::vector<const Case*>& cases, const Options& options,
               const RunCase& run_case) {
  Accelerator* accelerator = nullptr;
  // Only the first case can have peers, because a case with peers gets its own worker.
  std::unique_ptr<Peers> peers;
  try {
    // Fork before the accelerator is initialized, because an initialized one may not survive a
    // fork.
    peers = std::make_unique<Peers>(
        *cases[0], [&](const Case& item) { return run_alone(item, options, run_case); });
    if (cases[0]->processes > 1 && cases[0]->before_start) cases[0]->before_start();
    accelerator = &start(options);
    const auto subject = look_at(*accelerator);
    Fields fields;
    fields.add(subject.backend).add(subject.device).add(std::to_string(subject.device_count));
    send(out, Message::subject, fields.text());
  } catch (const Error& error) {
    Fields fields;
    fields.add(error.what()).add(std::to_string(static_cast<int>(error.code())));
    send(out, Message::refused, fields.text());
    return;
  } catch (const std::exception& error) {
    Fields fields;
    fields.add(error.what()).add(std::to_string(static_cast<int>(ErrorCode::unavailable)));
    send(out, Message::refused, fields.text());
    return;
  }
  for (const Case* item : cases) {
    send(out, Message::begin, {});
    const auto begin = std::chrono::steady_clock::now();
    const auto result = peers->merged(run_one(*item, *accelerator, run_case));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    Fields fields;
    fields.add(std::to_string(static_cast<int>(result.outcome)))
        .add(std::to_string(seconds.count()));
    send(out, Message::end, fields.add(result.message).text());
    // A failed case may have left the process in any state, so the other cases run in a new
    // process.
    if (result.outcome == Outcome::failed) return;
    tidy(*accelerator);
  }
}

[[noreturn]] void child(int out, pid_t parent, const std::vector<const Case*>& cases,
                        const Options& options, const RunCase& run_case) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // Standard output is reserved for the report.
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  run_cases(out, cases, options, run_case);
  // Skip destructors, because a backend's behavior at exit is not tested.
  ::_exit(0);
}

std::string words_of(int status) {
  if (WIFSIGNALED(status))
    return "crashed: signal " + std::to_string(WTERMSIG(status)) + " (" +
           ::strsignal(WTERMSIG(status)) + ")";
  return "the process exited during the case with exit code " + std::to_string(WEXITSTATUS(status));
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

void note(const std::string& text) { notes() += text; }

WorkerEnd run_worker(const std::vector<const Case*>& cases, const Options& options,
                     const RunCase& run_case, Subject& subject, std::vector<Result>& results) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorCode::io, "conformance",
                {.what = "cannot create a pipe", .got = std::strerror(errno)});
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    throw Error(ErrorCode::io, "conformance",
                {.what = "cannot start a process", .got = std::strerror(errno)});
  if (pid == 0) {
    ::close(ends[0]);
    child(ends[1], parent, cases, options, run_case);
  }
  ::close(ends[1]);

  WorkerEnd end;
  Receiver receiver(ends[0]);
  Message message;
  bool running = false, started = false;
  std::string broken;
  while (broken.empty()) {
    const double limit = running ? options.timeout : kStartSeconds;
    const auto state = receiver.receive(message, limit);
    if (state == Receiver::State::timeout) {
      broken = "timed out after " + std::to_string(static_cast<int>(limit)) + " s";
      break;
    }
    if (state == Receiver::State::closed) break;
    Fields fields(message.text);
    if (message.kind == Message::subject) {
      subject.backend = fields.next();
      subject.device = fields.next();
      subject.device_count = std::stoi(fields.next());
      started = true;
    } else if (message.kind == Message::refused) {
      end.refused = fields.next();
      end.refused_code = static_cast<ErrorCode>(std::stoi(fields.next()));
    } else if (message.kind == Message::begin) {
      running = true;
    } else {
      const Case& item = *cases[end.done];
      Result result{item.suite, item.name, item.grade, Outcome::passed, {}, 0};
      result.outcome = static_cast<Outcome>(std::stoi(fields.next()));
      result.seconds = std::stod(fields.next());
      result.message = fields.next();
      results.push_back(std::move(result));
      ++end.done;
      running = false;
    }
  }
  ::close(ends[0]);
  if (!broken.empty()) ::kill(-pid, SIGKILL);
  const int status = wait_for(pid);
  ::kill(-pid, SIGKILL);  // kills processes that a case left running
  if (broken.empty() && (running || !started)) broken = words_of(status);
  if (!started && end.refused.empty()) end.refused = "cannot initialize the accelerator: " + broken;
  if (running) {
    const Case& item = *cases[end.done++];
    results.push_back({item.suite, item.name, item.grade, Outcome::failed, broken, 0});
  }
  return end;
}

}  // namespace anyaccel::conformance
