// Reads whole files, and writes files atomically: after a crash, a file has either its old or its
// new content.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "anyaccel/export.h"

namespace anyaccel {

/// Default size limit for read_file(), in bytes. Larger than any known text file.
inline constexpr std::size_t kMaxTextFile = std::size_t{64} << 20;
/// Size limit for programs and shared libraries, in bytes.
inline constexpr std::size_t kMaxLibrary = std::size_t{4} << 30;

/// Opens a regular file for reading and returns its descriptor, which the caller closes. Never
/// blocks: for a FIFO, device, folder or socket, throws `io` without opening it. Throws `not_found`
/// if the path does not exist, and `io` with the system's reason for other failures. `where` names
/// the caller in errors.
ANYACCEL_API int open_regular_file(const std::filesystem::path& path,
                                   const char* where = "read_file");

/// Returns the content of a regular file, including files that report size 0, such as those under
/// /proc. Throws the same errors as open_regular_file(), and `corrupt` for a file of more than
/// `limit` bytes.
ANYACCEL_API std::string read_file(const std::filesystem::path& path,
                                   std::size_t limit = kMaxTextFile);

/// Like read_file(), but returns nullopt instead of throwing.
ANYACCEL_API std::optional<std::string> try_read_file(const std::filesystem::path& path,
                                                      std::size_t limit = kMaxTextFile) noexcept;

/// Opens an input that the user named on the command line: a regular file, a pipe (blocks until a
/// writer opens it), a terminal or /dev/null. Throws `io` for other devices, folders and sockets.
ANYACCEL_API int open_input(const std::filesystem::path& path, const char* where = "read_file");

/// Like read_file(), for inputs that open_input() accepts.
ANYACCEL_API std::string read_input(const std::filesystem::path& path,
                                    std::size_t limit = kMaxTextFile);

/// Like try_read_file(), but twice as fast. For small files under /proc and /sys whose content the
/// kernel returns in one read().
std::optional<std::string> try_read_kernel_file(const std::string& path) noexcept;

/// A file that replaces `path` only when it is complete: it is written to a temporary file in the
/// same folder, flushed to the disk, and renamed. Without `commit()`, the destructor deletes the
/// temporary file and `path` does not change. Failures (disk full, quota, no permission) throw `io`
/// with the path and the system's reason. Not thread-safe. Two writers of one path do not
/// interfere; the last one to commit wins.
class ANYACCEL_API AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Flushes the written data to the disk. Flush all files that belong together before committing
  /// the first one, because a full disk is often detected only at this point. Do not write after
  /// flush().
  void flush();
  /// Flushes the file and its folder, and renames the file to `path`. Call at most once.
  void commit();

  /// The final path (with links resolved) and the path of the temporary file.
  const std::filesystem::path& path() const noexcept { return path_; }
  const std::filesystem::path& aside() const noexcept { return aside_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path aside_;  ///< temporary file, locked while this object writes it
  int descriptor_ = -1;
  bool flushed_ = false;
};

/// Replaces a file's content atomically, as AtomicFile does.
ANYACCEL_API void write_file_atomically(const std::filesystem::path& path,
                                        std::string_view content);

}  // namespace anyaccel
