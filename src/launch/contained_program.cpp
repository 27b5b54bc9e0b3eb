#include "launch/contained_program.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>

#include "anyaccel/error.h"
#include "launch/guard.h"
#include "launch/run_job.h"

namespace anyaccel::launch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kKept = 1 << 16;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::unavailable, "launch", {.what = what});
}

struct Pipe {
  int from = -1, to = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      fail(std::string("cannot create a pipe: ") + std::strerror(errno));
    from = ends[0];
    to = ends[1];
    ::fcntl(from, F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    ::close(from);
    close_write_end();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write_end() {
    if (to >= 0) ::close(to);
    to = -1;
  }
};

/// Reads the available data and keeps only the end of it. Returns false at end-of-file.
bool read_available(int from, std::string& end) {
  char buffer[1 << 14];
  for (;;) {
    const ssize_t count = ::read(from, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0;
    end.append(buffer, static_cast<std::size_t>(count));
    if (end.size() > 2 * kKept) end.erase(0, end.size() - kKept);
  }
}

int milliseconds_until(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
}

}  // namespace

ContainedProgram run_contained(const std::vector<std::string>& command,
                               const Variables& environment, double seconds) {
  Job job;
  auto& rank = job.ranks.emplace_back();
  rank.environment = environment;
  rank.command = command;
  job.input = RankInput::nothing;
  job.own_group = true;
  const auto until = Clock::now() + std::chrono::milliseconds(
                                        static_cast<long long>(std::min(seconds, 1e9) * 1e3));
  ContainedProgram out;
  Pipe output;
  Guard guard(job, {{output.to, output.to}}, "");
  guard.start();
  output.close_write_end();
  bool open = true;
  for (;;) {
    pollfd both[] = {{guard.link(), POLLIN, 0}, {open ? output.from : -1, POLLIN, 0}};
    ::poll(both, 2, out.timed_out ? -1 : milliseconds_until(until));
    if (both[1].revents != 0) open = read_available(output.from, out.output);
    if (both[0].revents != 0) {
      const auto message = guard.receive();
      if (!message) {
        kill_descendants();
        fail("the process that guards " + command.front() + " was killed");
      }
      if (message->kind == GuardMessage::not_started)
        fail("cannot start " + command.front() + ": " + std::strerror(message->status));
      if (message->kind == GuardMessage::failed) out.exit_code = exit_code_of(message->status);
      if (message->kind == GuardMessage::finished) break;
    } else if (!out.timed_out && Clock::now() >= until) {
      out.timed_out = true;
      // The second request makes the guard kill processes until none is left.
      for (int i = 0; i < 2; ++i) Guard::forward(guard.link(), SIGKILL, false);
    }
  }
  // A process that cannot be killed may keep the pipe open.
  if (open) read_available(output.from, out.output);
  if (out.output.size() > kKept) out.output.erase(0, out.output.size() - kKept);
  return out;
}

}  // namespace anyaccel::launch
