#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "anyaccel/error.h"

namespace anyaccel {

namespace {

[[noreturn]] void fail(const char* where, const char* what, const std::filesystem::path& path, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  throw Error(code, where, {.what = std::string(what) + " " + path.string() + ": " + std::strerror(error)});
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  const auto folder = path.parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

/// Reads all of a file; the system's error number when that fails.
int read_all(const std::filesystem::path& path, std::string& out) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  struct stat info {};
  // Files under /proc say size 0; the loop below goes by what read() gives.
  const std::size_t expected = ::fstat(descriptor, &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0;
  std::size_t used = 0;
  int error = 0;
  out.resize(expected + 1);
  for (;;) {
    if (used == out.size()) out.resize(out.size() * 2 < 4096 ? 4096 : out.size() * 2);
    const ssize_t count = ::read(descriptor, out.data() + used, out.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) error = errno;
    if (count <= 0) break;
    used += static_cast<std::size_t>(count);
  }
  ::close(descriptor);
  out.resize(used);
  return error;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::string content;
  if (const int error = read_all(path, content)) fail("read_file", "cannot read", path, error);
  return content;
}

std::optional<std::string> try_read_file(const std::filesystem::path& path) noexcept try {
  std::string content;
  if (read_all(path, content) != 0) return std::nullopt;
  return content;
} catch (...) {
  return std::nullopt;
}

std::optional<std::string> try_read_kernel_file(const std::string& path) noexcept try {
  std::array<char, 8192> text;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills what is used
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  const ssize_t count = ::read(descriptor, text.data(), text.size());
  ::close(descriptor);
  if (count < 0 || count == static_cast<ssize_t>(text.size())) return try_read_file(path);
  return std::string(text.data(), static_cast<std::size_t>(count));
} catch (...) {
  return std::nullopt;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  // A link is followed, so that it keeps pointing at the file it pointed at.
  std::error_code ignored;
  if (std::filesystem::is_symlink(path_, ignored)) path_ = std::filesystem::weakly_canonical(path_, ignored);
  // O_EXCL: neither another writer's file nor one left by a killed process is reused.
  static std::atomic<unsigned> counter{0};
  do {
    aside_ = path_.string() + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
    descriptor_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail("write_file", "cannot write", path_, errno);
  // Says that somebody still writes it, see FileGroup. File systems without locks leave such files alone as well.
  static_cast<void>(::flock(descriptor_, LOCK_EX | LOCK_NB));
  struct stat old {};
  if (::stat(path_.c_str(), &old) == 0) static_cast<void>(::fchmod(descriptor_, old.st_mode & 07777));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(aside_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(descriptor_, next, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write_file", "cannot write", path_, errno);
    next += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void AtomicFile::flush() {
  if (flushed_) return;
  if (::fsync(descriptor_) != 0) fail("write_file", "cannot flush", path_, errno);
  flushed_ = true;
}

void AtomicFile::commit() {
  // The data must be on the disk before the name points to it, else a crash leaves an empty file.
  flush();
  const int renamed = ::rename(aside_.c_str(), path_.c_str());
  const int error = errno;
  struct stat now {
  }, mine{};
  // finish_file_group() of another process may have renamed it already.
  const bool in_place = renamed == 0 || (::stat(path_.c_str(), &now) == 0 && ::fstat(descriptor_, &mine) == 0 &&
                                         now.st_ino == mine.st_ino && now.st_dev == mine.st_dev);
  ::close(std::exchange(descriptor_, -1));
  if (!in_place) {
    ::unlink(aside_.c_str());
    fail("write_file", "cannot put in place", path_, error);
  }
  // Some file systems cannot flush a folder; the new content is in place all the same.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    static_cast<void>(::fsync(folder));
    ::close(folder);
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace anyaccel
