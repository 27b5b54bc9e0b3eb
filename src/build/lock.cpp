#include "build/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "anyaccel/error.h"
#include "anyaccel/interrupt.h"
#include "base/fork_safe.h"

namespace anyaccel::build {

namespace {

int open_file(const std::filesystem::path& path, int flags) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

bool has_no_locks(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

std::string own_host() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "";
}

FileLock::Holder holder_of(int descriptor) {
  std::array<char, 320> text{};
  FileLock::Holder out;
  if (::pread(descriptor, text.data(), text.size() - 1, 0) <= 0) return out;
  char* rest = nullptr;
  out.process = std::strtol(text.data(), &rest, 10);
  if (*rest == ' ') out.host.assign(rest + 1, std::strcspn(rest + 1, "\n"));
  return out;
}

void write_own_id(int descriptor) {
  const auto text = std::to_string(::getpid()) + " " + own_host() + "\n";
  // Ignore errors, because this text is only used in log messages of waiting processes.
  if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, text.data(), text.size(), 0) < 0)
    return;
}

}  // namespace

void FileLock::close() noexcept {
  if (descriptor_ < 0) return;
  // Unlock explicitly, because a copy of the descriptor in a forked child would keep the lock.
  ::flock(descriptor_, LOCK_UN);
  forget_in_children(descriptor_);
  ::close(descriptor_);
  descriptor_ = -1;
}

FileLock::~FileLock() { close(); }
FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

bool FileLock::is_at(const std::filesystem::path& path) const noexcept {
  struct stat mine {
  }, there{};
  return ::fstat(descriptor_, &mine) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

FileLock FileLock::exclusive(const std::filesystem::path& path,
                             const std::function<void(const Holder&)>& waiting) {
  for (;;) {
    FileLock lock(open_file(path, O_RDWR | O_CREAT));
    if (!lock)
      throw Error(ErrorCode::io, "op builders",
                  {.what = "cannot open the lock " + path.string() + ": " + std::strerror(errno)});
    close_in_children(lock.descriptor_);
    while (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (has_no_locks(errno)) return lock;
      if (errno != EWOULDBLOCK && errno != EINTR)
        throw Error(ErrorCode::io, "op builders",
                    {.what = "cannot lock " + path.string() + ": " + std::strerror(errno)});
      throw_if_interrupted("OpBuilder::load");
      waiting(holder_of(lock.descriptor_));
      const timespec time{.tv_sec = 0, .tv_nsec = 100'000'000};
      ::nanosleep(&time, nullptr);
    }
    if (!lock.is_at(path))
      continue;  // `ops clean` has deleted the file in the meantime, so try again
    write_own_id(lock.descriptor_);
    return lock;
  }
}

FileLock FileLock::try_exclusive(const std::filesystem::path& path) {
  FileLock lock(open_file(path, O_RDWR));
  if (lock && ::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) return {};
  return lock;
}

FileLock FileLock::try_shared(const std::filesystem::path& path) {
  FileLock lock(open_file(path, O_RDONLY));
  if (lock && ::flock(lock.descriptor_, LOCK_SH | LOCK_NB) != 0 && !has_no_locks(errno)) return {};
  return lock;
}

}  // namespace anyaccel::build
