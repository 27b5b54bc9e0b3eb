// An open file and its requirements for direct I/O.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "io/async/plan.h"
#include "io/async/write_conflicts.h"

namespace anyaccel::ops::aio {

/// Maximum alignment of direct transfers. Files that need a larger one go through the page cache.
inline constexpr std::int64_t kMaxUnit = 64 << 10;
/// Alignment of the workers' bounce buffers.
inline constexpr std::int64_t kMemoryAlignment = 4096;

class File {
 public:
  /// Opens a file. For writing, creates it if it does not exist (mode 0600) and never truncates it.
  /// Uses O_DIRECT if the file system supports it. Throws `not_found` or `io`, and
  /// `invalid_argument` if the path is neither a file nor a disk but, for example, a pipe or a
  /// terminal. Never waits for another process.
  static std::unique_ptr<File> open(const std::string& path, bool write);
  /// Reopens the file behind a descriptor, which the caller continues to own. Uses direct I/O if
  /// the descriptor does. Throws `invalid_argument` if it is not open for writing or not seekable.
  static std::unique_ptr<File> of_descriptor(int descriptor);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  int descriptor() const noexcept { return descriptor_; }
  const std::string& path() const noexcept { return path_; }
  bool direct() const noexcept { return direct_.load(std::memory_order_relaxed); }
  /// Switches to the page cache, even for in-flight transfers that the system has not started.
  /// Thread-safe. Returns false if the file did not use direct I/O.
  bool stop_direct() noexcept;
  /// Direct transfers begin and end at multiples of this unit (at most 64 KiB). It is at least a
  /// page and a file system block, so that a buffered transfer never shares a page or block with an
  /// adjacent direct transfer. 1 without direct I/O.
  std::int64_t unit() const noexcept { return direct() ? unit_ : 1; }
  /// The memory alignment that direct transfers require.
  std::uint64_t memory_alignment() const noexcept { return memory_alignment_; }
  /// Returns null unless the file is open for writing.
  WriteConflicts* write_conflicts() const noexcept { return write_conflicts_.get(); }
  std::int64_t size() const;
  /// Reserves disk space if a write extends the file, so that a full disk is detected early and
  /// blocks can be written in any order. Throws `io` if the disk is full.
  void reserve(const Range& range) const;

 private:
  File(int descriptor, std::string path, bool direct);
  void learn_alignment();
  void join_write_conflicts();

  int descriptor_;
  std::string path_;
  std::atomic<bool> direct_;
  std::int64_t unit_ = 4096;
  std::uint64_t memory_alignment_ = 512;
  std::shared_ptr<WriteConflicts> write_conflicts_;
};

}  // namespace anyaccel::ops::aio
