#include "peers.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "pipe.h"

namespace anyaccel::conformance {

namespace {

int number_of_this_process = 0;

std::string& file_of_this_case() {
  static std::string file;
  return file;
}

/// Creates an empty file that all processes of the case can open.
std::string make_file() {
  auto path = (std::filesystem::temp_directory_path() / "anyaccel_conformance_XXXXXX").string();
  const int file = ::mkstemp(path.data());
  if (file < 0)
    throw Error(ErrorCode::io, "conformance",
                {.what = "cannot create a temporary file", .got = std::strerror(errno)});
  ::close(file);
  return path;
}

[[noreturn]] void be_peer(int out, pid_t first, const Case& item, const RunAlone& run) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != first) ::_exit(1);
  const auto result = run(item);
  Fields fields;
  fields.add(std::to_string(static_cast<int>(result.outcome))).add(result.message);
  send(out, Message::end, fields.text());
  ::_exit(0);
}

}  // namespace

int process_number() noexcept { return number_of_this_process; }
const std::string& meeting_file() noexcept { return file_of_this_case(); }

Peers::Peers(const Case& item, const RunAlone& run) : item_(item) {
  if (item.processes < 2) return;
  file_ = file_of_this_case() = make_file();
  for (int number = 1; number < item.processes; ++number) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw Error(ErrorCode::io, "conformance",
                  {.what = "cannot create a pipe", .got = std::strerror(errno)});
    const pid_t first = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0)
      throw Error(ErrorCode::io, "conformance",
                  {.what = "cannot start a process", .got = std::strerror(errno)});
    if (pid == 0) {
      number_of_this_process = number;
      be_peer(ends[1], first, item, run);
    }
    ::close(ends[1]);
    peers_.push_back({pid, ends[0]});
  }
}

Peers::~Peers() {
  for (const auto& peer : peers_) {
    ::kill(peer.pid, SIGKILL);
    ::waitpid(peer.pid, nullptr, 0);
    ::close(peer.pipe);
  }
  if (!file_.empty()) ::unlink(file_.c_str());
}

Result Peers::merged(Result mine) {
  // No timeout is needed here: if the case exceeds its time limit, the parent kills all processes
  // of the case.
  constexpr double kForever = 1e6;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Receiver receiver(peers_[i].pipe);
    Message message;
    std::string said = "exited without a result";
    auto outcome = Outcome::failed;
    if (receiver.receive(message, kForever) == Receiver::State::message) {
      Fields fields(message.text);
      outcome = static_cast<Outcome>(std::stoi(fields.next()));
      said = fields.next();
    }
    if (outcome != Outcome::failed) continue;
    const auto other = "process " + std::to_string(i + 1) + ": " + said;
    mine.message = mine.outcome == Outcome::failed ? mine.message + "; " + other : other;
    mine.outcome = Outcome::failed;
  }
  return mine;
}

}  // namespace anyaccel::conformance
