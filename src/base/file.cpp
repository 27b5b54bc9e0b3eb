#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "anyaccel/error.h"

namespace anyaccel {

namespace {

[[noreturn]] void fail(const char* where, const char* what, const std::filesystem::path& path,
                       int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  throw Error(code, where,
              {.what = std::string(what) + " " + path.string() + ": " + std::strerror(error)});
}

[[noreturn]] void too_large(const std::filesystem::path& path, std::size_t limit) {
  throw Error(ErrorCode::corrupt, "read_file",
              {.what = path.string() + " is too large",
               .want = "at most " + std::to_string(limit) + " bytes"});
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  const auto folder = path.parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

const char* kind_name(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFIFO: return "a FIFO";
    case S_IFCHR: return "a character device";
    case S_IFBLK: return "a block device";
    case S_IFSOCK: return "a socket";
    default: return "not a file";
  }
}

enum class Accept { regular, input };

bool is_input(const struct stat& info, int descriptor) {
  return S_ISFIFO(info.st_mode) ||
         (S_ISCHR(info.st_mode) && (info.st_rdev == ::makedev(1, 3) || ::isatty(descriptor)));
}

/// Returns a descriptor, or a negative number if the file cannot be opened. On failure,
/// `info.st_mode` is the mode that was rejected, or 0 if errno contains the reason.
int open_file(const std::filesystem::path& path, Accept accept, struct stat& info) {
  info = {};
  // Call stat() before open(), because opening a device may have side effects.
  if (::stat(path.c_str(), &info) != 0) return info.st_mode = 0, -1;
  const bool wait = accept == Accept::input && !S_ISREG(info.st_mode);
  if (!S_ISREG(info.st_mode) && !(wait && (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode))))
    return -1;
  // Without O_NONBLOCK, open() would block if the file has just been replaced by a FIFO.
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | (wait ? 0 : O_NONBLOCK));
  if (descriptor < 0 || ::fstat(descriptor, &info) != 0) {
    const int error = errno;
    if (descriptor >= 0) ::close(descriptor);
    errno = error;
    return info.st_mode = 0, -1;
  }
  if (S_ISREG(info.st_mode) || (wait && is_input(info, descriptor))) return descriptor;
  ::close(descriptor);
  return -1;
}

int open_or_fail(const std::filesystem::path& path, Accept accept, const char* where) {
  struct stat info {};
  const int descriptor = open_file(path, accept, info);
  if (descriptor >= 0) return descriptor;
  if (info.st_mode == 0 || S_ISDIR(info.st_mode))
    fail(where, "cannot read", path, info.st_mode == 0 ? errno : EISDIR);
  throw Error(ErrorCode::io, where,
              {.what = "cannot read " + path.string(),
               .got = kind_name(info.st_mode),
               .want = accept == Accept::input ? "a regular file or a pipe" : "a regular file"});
}

enum class Read { done, too_large, failed };

/// Reads `descriptor` to the end and closes it. If the result is `failed`, errno contains the
/// reason.
Read read_all(int descriptor, std::size_t limit, std::string& out) {
  struct stat info {};
  // Files under /proc report size 0, so the loop below reads until read() returns 0.
  const bool sized = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  const std::size_t expected = sized ? static_cast<std::size_t>(info.st_size) : 0;
  Read result = expected > limit ? Read::too_large : Read::done;
  std::size_t used = 0;
  int error = 0;
  if (result == Read::done) out.resize(expected + 1);
  while (result == Read::done) {
    if (used == out.size()) out.resize(out.size() * 2 < 4096 ? 4096 : out.size() * 2);
    const ssize_t count = ::read(descriptor, out.data() + used, out.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) error = errno, result = Read::failed;
    if (count <= 0) break;
    used += static_cast<std::size_t>(count);
    if (used > limit) result = Read::too_large;
  }
  ::close(descriptor);
  out.resize(used);
  errno = error;
  return result;
}

std::string read_or_fail(const std::filesystem::path& path, Accept accept, std::size_t limit) {
  std::string content;
  switch (read_all(open_or_fail(path, accept, "read_file"), limit, content)) {
    case Read::done: return content;
    case Read::too_large: too_large(path, limit);
    case Read::failed: break;
  }
  fail("read_file", "cannot read", path, errno);
}

}  // namespace

int open_regular_file(const std::filesystem::path& path, const char* where) {
  return open_or_fail(path, Accept::regular, where);
}

int open_input(const std::filesystem::path& path, const char* where) {
  return open_or_fail(path, Accept::input, where);
}

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
  return read_or_fail(path, Accept::regular, limit);
}

std::string read_input(const std::filesystem::path& path, std::size_t limit) {
  return read_or_fail(path, Accept::input, limit);
}

std::optional<std::string> try_read_file(const std::filesystem::path& path,
                                         std::size_t limit) noexcept try {
  struct stat info {};
  const int descriptor = open_file(path, Accept::regular, info);
  std::string content;
  if (descriptor < 0 || read_all(descriptor, limit, content) != Read::done) return std::nullopt;
  return content;
} catch (...) {
  return std::nullopt;
}

std::optional<std::string> try_read_kernel_file(const std::string& path) noexcept try {
  std::array<char, 8192>
      text;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills what is used
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
  // Replace the target of a symbolic link, so that the link remains a link.
  std::error_code ignored;
  if (std::filesystem::is_symlink(path_, ignored))
    path_ = std::filesystem::weakly_canonical(path_, ignored);
  // O_EXCL prevents reuse of a temporary file that belongs to a different writer or was left behind
  // by a killed process.
  static std::atomic<unsigned> counter{0};
  do {
    aside_ =
        path_.string() + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
    descriptor_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail("write_file", "cannot write", path_, errno);
  // The lock marks the file as being written; see FileGroup. On file systems without lock support,
  // FileGroup never removes such files.
  static_cast<void>(::flock(descriptor_, LOCK_EX | LOCK_NB));
  struct stat old {};
  if (::stat(path_.c_str(), &old) == 0)
    static_cast<void>(::fchmod(descriptor_, old.st_mode & 07777));
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
  // The data must be on disk before the name points to it. Otherwise a crash could leave an empty
  // file.
  flush();
  const int renamed = ::rename(aside_.c_str(), path_.c_str());
  const int error = errno;
  struct stat now {
  }, mine{};
  // A different process may already have renamed the file in finish_file_group().
  const bool in_place =
      renamed == 0 || (::stat(path_.c_str(), &now) == 0 && ::fstat(descriptor_, &mine) == 0 &&
                       now.st_ino == mine.st_ino && now.st_dev == mine.st_dev);
  ::close(std::exchange(descriptor_, -1));
  if (!in_place) {
    ::unlink(aside_.c_str());
    fail("write_file", "cannot replace", path_, error);
  }
  // Some file systems cannot flush a folder. Ignore that error, because the new content is in
  // place.
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
