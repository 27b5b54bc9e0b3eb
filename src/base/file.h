// Files: whole reads, and writes that leave the old content or the new one, never a half.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace anyaccel {

/// The content of a file. Also reads files that do not know their size, as those under /proc.
/// Throws `not_found` when there is none and `io` with the system's reason when it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// The same without exceptions: nothing when the file cannot be read.
std::optional<std::string> try_read_file(const std::filesystem::path& path) noexcept;

/// The same for what the kernel tells in one piece, as most small files under /proc and /sys: one read, half the time.
std::optional<std::string> try_read_kernel_file(const std::string& path) noexcept;

/// A file that takes the place of `path` only when it is complete: written aside in the same folder, flushed
/// to the disk, renamed. Without `commit()` the destructor removes what was written and `path` stays as it was.
/// Failures (disk full, quota, no permission) throw `io` naming the path and the system's reason.
/// Not thread-safe; two writers of one path do not mix, the last to commit wins.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Puts what was written on the disk. Files that belong together are all flushed before the first one is
  /// committed: a full disk often shows only here. Nothing is written after it.
  void flush();
  /// Flushes file and folder and puts the file in place. At most once.
  void commit();

  /// Where the file will be (links followed), and where it is until then.
  const std::filesystem::path& path() const noexcept { return path_; }
  const std::filesystem::path& aside() const noexcept { return aside_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path aside_;  ///< locked while this object writes it
  int descriptor_ = -1;
  bool flushed_ = false;
};

/// Puts `content` in place of a file's content, as AtomicFile does.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace anyaccel
