#include "core/plugin_trial.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

namespace anyaccel {

namespace {

// What the child sends when all went well, and before the text of an exception. No library writes them by chance.
constexpr std::string_view kDone =
    "\x01"
    "anyaccel-trial-done\n";
constexpr std::string_view kRefused =
    "\x01"
    "anyaccel-trial-refused\n";

void send(int pipe, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(pipe, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

[[noreturn]] void child(const std::function<void()>& work, int pipe) {
  // The library's own words are part of the reason, and no output of this program.
  ::dup2(pipe, STDOUT_FILENO);
  ::dup2(pipe, STDERR_FILENO);
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, SIG_DFL);
  try {
    work();
    send(pipe, kDone);
  } catch (const std::exception& error) {
    send(pipe, kRefused);
    send(pipe, error.what());
  } catch (...) {
    send(pipe, kRefused);
    send(pipe, "it threw something that is no std::exception");
  }
  ::_exit(0);  // no destructors: they are the parent's
}

/// All that the child writes until it ends; false when it takes too long.
bool receive(int pipe, double seconds, std::string& out) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd event{.fd = pipe, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&event, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    out.append(buffer.data(), static_cast<std::size_t>(count));
    // Something that the library started may hold the pipe open.
    if (out.size() >= kDone.size() && out.compare(out.size() - kDone.size(), kDone.size(), kDone) == 0) return true;
  }
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  const auto start = text.find_last_of('\n');
  text = start == std::string::npos ? text : text.substr(start + 1);
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

std::string ended_by(int status, const std::string& output) {
  std::string out = WIFSIGNALED(status) ? std::string("it ended its process: ") + ::strsignal(WTERMSIG(status))
                                        : std::string("it ended its process");
  if (const auto words = last_line(output); !words.empty()) out += ", \"" + words + "\"";
  return out;
}

}  // namespace

std::string run_in_trial(const std::function<void()>& work, double seconds) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};  // no trial is possible; the real thing may be
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(ends[0]);
    child(work, ends[1]);
  }
  ::close(ends[1]);
  if (process < 0) {
    ::close(ends[0]);
    return {};
  }
  std::string output;
  const bool in_time = receive(ends[0], seconds, output);
  ::close(ends[0]);
  if (!in_time) ::kill(process, SIGKILL);
  int status = 0;
  // A program that reaps all its children itself may have taken this one too.
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  if (!in_time) return "it took longer than " + std::to_string(static_cast<int>(seconds)) + " s in a trial";
  if (const auto place = output.rfind(kRefused); place != std::string::npos)
    return output.substr(place + kRefused.size());
  return output.find(kDone) != std::string::npos ? std::string() : ended_by(status, output);
}

}  // namespace anyaccel
