#include "io/async/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "anyaccel/error.h"

namespace anyaccel::ops::aio {

namespace {

[[noreturn]] void fail(const char* what, const std::string& path, int error) {
  throw Error(error == ENOENT ? ErrorCode::not_found : ErrorCode::io, "aio_handle",
              {.what = std::string(what) + " " + path + " failed: " + std::strerror(error)});
}

int open_retrying(const char* path, int flags) {
  int descriptor = -1;
  do {
    descriptor = ::open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

/// Opens with O_DIRECT, and falls back to buffered I/O if the file system rejects it.
int open_direct(const char* path, int flags, bool& direct) {
  const int descriptor = open_retrying(path, flags | O_DIRECT);
  direct = descriptor >= 0;
  return direct || errno != EINVAL ? descriptor : open_retrying(path, flags);
}

const char* kind(mode_t mode) {
  return S_ISFIFO(mode)   ? "a named pipe"
         : S_ISSOCK(mode) ? "a socket"
         : S_ISCHR(mode)  ? "a character device"
                          : "something else";
}

void require_file(const std::string& path, const struct stat& about) {
  if (S_ISREG(about.st_mode) || S_ISBLK(about.st_mode)) return;
  if (S_ISDIR(about.st_mode)) fail("opening", path, EISDIR);
  throw Error(ErrorCode::invalid_argument, "aio_handle",
              {.what = path + " is not seekable",
               .got = kind(about.st_mode),
               .want = "a regular file or a block device"});
}

/// Checks an open file, and clears the O_NONBLOCK with which it was opened.
void require_file(const std::string& path, int descriptor) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) fail("inspecting", path, errno);
  require_file(path, about);
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
}

}  // namespace

File::File(int descriptor, std::string path, bool direct)
    : descriptor_(descriptor), path_(std::move(path)), direct_(direct) {
  if (direct) learn_alignment();
}

File::~File() { ::close(descriptor_); }

void File::learn_alignment() {
  unit_ = std::max<std::int64_t>(unit_, ::sysconf(_SC_PAGESIZE));
  // The file system updates whole blocks. A value of st_blksize above kMaxUnit is a preferred I/O
  // size, not the block size.
  if (struct stat file{}; ::fstat(descriptor_, &file) == 0)
    if (const std::int64_t block = file.st_blksize; block <= kMaxUnit && (block & (block - 1)) == 0)
      unit_ = std::max(unit_, block);
#ifdef STATX_DIOALIGN
  struct statx about {};
  if (::statx(descriptor_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) != 0 ||
      (about.stx_mask & STATX_DIOALIGN) == 0)
    return;
  if (about.stx_dio_offset_align == 0) {
    stop_direct();
    return;
  }
  // The workers' bounce buffers are sized and aligned for these limits. File systems with larger
  // units (extents) use buffered I/O.
  if (about.stx_dio_offset_align > kMaxUnit || about.stx_dio_mem_align > kMemoryAlignment) {
    stop_direct();
    return;
  }
  unit_ = std::max<std::int64_t>(unit_, about.stx_dio_offset_align);
  memory_alignment_ = about.stx_dio_mem_align;
#endif
}

std::unique_ptr<File> File::open(const std::string& path, bool write) {
  // Check before opening: even a non-blocking open would affect the process at the other end of a
  // pipe.
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0) require_file(path, about);
  bool direct = false;
  const int descriptor = open_direct(path.c_str(), write ? O_WRONLY | O_CREAT : O_RDONLY, direct);
  if (descriptor < 0) fail(write ? "opening for writing" : "opening for reading", path, errno);
  std::unique_ptr<File> file(new File(descriptor, path, direct));
  require_file(path, descriptor);
  if (write) file->join_write_conflicts();
  return file;
}

std::unique_ptr<File> File::of_descriptor(int descriptor) {
  const auto where = "descriptor " + std::to_string(descriptor);
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
    throw Error(ErrorCode::invalid_argument, "aio_handle",
                {.what = where + " is not writable",
                 .got = flags < 0 ? std::strerror(errno) : "a read-only descriptor"});
  if (::lseek(descriptor, 0, SEEK_CUR) < 0)
    throw Error(
        ErrorCode::invalid_argument, "aio_handle",
        {.what = where + " is not seekable: " + std::strerror(errno), .hint = "pass a file"});
  struct stat about {};
  if (::fstat(descriptor, &about) == 0) require_file(where, about);
  // Reopen the file, for three reasons: the caller may close its descriptor during the write, flags
  // may have to change, and O_APPEND would ignore offsets.
  bool direct = (flags & O_DIRECT) != 0;
  const auto link = "/proc/self/fd/" + std::to_string(descriptor);
  int own =
      direct ? open_direct(link.c_str(), O_WRONLY, direct) : open_retrying(link.c_str(), O_WRONLY);
  if (own < 0 && (flags & (O_APPEND | O_DIRECT)) == 0)
    own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (own < 0) fail("reopening", where, errno);
  std::unique_ptr<File> file(new File(own, where, direct));
  require_file(where, own);
  file->join_write_conflicts();
  return file;
}

void File::join_write_conflicts() {
  struct stat about {};
  if (::fstat(descriptor_, &about) == 0)
    write_conflicts_ = WriteConflicts::of(about.st_dev, about.st_ino);
}

bool File::stop_direct() noexcept {
  if (!direct_.exchange(false)) return false;
  const int flags = ::fcntl(descriptor_, F_GETFL);
  ::fcntl(descriptor_, F_SETFL, flags & ~O_DIRECT);
  return true;
}

std::int64_t File::size() const {
  struct stat about {};
  if (::fstat(descriptor_, &about) != 0) fail("getting the size of", path_, errno);
  if (S_ISBLK(about.st_mode)) return ::lseek(descriptor_, 0, SEEK_END);
  return about.st_size;
}

void File::reserve(const Range& range) const {
  const auto from = std::max(range.begin, size());
  if (from >= range.end) return;
  int answer = 0;
  do {
    answer = ::fallocate(descriptor_, 0, from, range.end - from);
  } while (answer != 0 && errno == EINTR);
  // Other errors mean that this file system cannot reserve space. Real failures show up in the
  // writes.
  if (answer != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    fail("reserving space in", path_, errno);
}

}  // namespace anyaccel::ops::aio
