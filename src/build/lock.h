// File locks (flock). The kernel releases them when their process exits for any reason. On NFS,
// they are byte-range locks on the server, and an exclusive lock requires a file that is open for
// writing.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "anyaccel/export.h"

namespace anyaccel::build {

/// An open, locked file. The destructor releases the lock. Move-only. Not thread-safe.
class ANYACCEL_API FileLock {
 public:
  /// The process that holds a lock; 0 and "" if it is unknown.
  struct Holder {
    long process = 0;
    std::string host;
  };
  FileLock() = default;
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  /// Waits for an exclusive lock on `path`, creating the file if necessary, and writes the PID and
  /// host name to the file. `waiting` is called ten times a second and may throw. If the file
  /// system does not support locks, returns without locking, so the caller's work must be correct
  /// even without the lock. Forked children do not inherit the lock. Throws `io` and `interrupted`.
  static FileLock exclusive(const std::filesystem::path& path,
                            const std::function<void(const Holder&)>& waiting);
  /// Like exclusive(), but does not wait or create the file. Returns an empty object if another
  /// process holds the lock or the file cannot be opened.
  static FileLock try_exclusive(const std::filesystem::path& path);
  /// Takes a shared lock. Returns an empty object if the file cannot be opened or is locked
  /// exclusively.
  static FileLock try_shared(const std::filesystem::path& path);

  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  /// True if `path` still refers to this file.
  bool is_at(const std::filesystem::path& path) const noexcept;
  /// Keeps the lock until the process exits.
  void keep() noexcept { descriptor_ = -1; }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  void close() noexcept;
  int descriptor_ = -1;
};

}  // namespace anyaccel::build
