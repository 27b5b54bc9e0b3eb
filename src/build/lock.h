// Locks of the kernel (flock): gone with the process that held them, however it ended. On NFS the
// kernel makes them byte-range locks of the server, which want files opened for writing.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "anyaccel/export.h"

namespace anyaccel::build {

/// An open, locked file; closing gives the lock back. Move only. Not thread-safe.
class ANYACCEL_API FileLock {
 public:
  /// Who has it, as far as it told; 0 and "" when not known.
  struct Holder {
    long process = 0;
    std::string host;
  };
  FileLock() = default;
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  /// Waits until this process alone holds `path`, which is made when it is not there, and writes
  /// its id and host into it. `waiting` is called ten times a second and may throw. A file system
  /// without locks gives a lock that is not one: what is made under it must be right all the same.
  /// Children that are forked meanwhile do not hold it. Throws `io` and `interrupted`.
  static FileLock exclusive(const std::filesystem::path& path,
                            const std::function<void(const Holder&)>& waiting);
  /// The same at once or not at all: an empty object when somebody else has it, or it cannot be
  /// opened.
  static FileLock try_exclusive(const std::filesystem::path& path);
  /// Shared with other readers; an empty object when the file is not there or a writer has it.
  static FileLock try_shared(const std::filesystem::path& path);

  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  /// True as long as `path` is this file and no newer one.
  bool is_at(const std::filesystem::path& path) const noexcept;
  /// The lock stays until the process ends.
  void keep() noexcept { descriptor_ = -1; }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  void close() noexcept;
  int descriptor_ = -1;
};

}  // namespace anyaccel::build
