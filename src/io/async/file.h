// An open file and what direct input and output need there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "io/async/plan.h"
#include "io/async/write_conflicts.h"

namespace anyaccel::ops::aio {

inline constexpr std::int64_t kMaxUnit =
    64 << 10;  ///< of direct transfers; larger ones go through the page cache
inline constexpr std::int64_t kMemoryAlignment = 4096;  ///< of workers' own memory

class File {
 public:
  /// Opens a file, for writing made when it is not there (mode 0600) and never truncated. With
  /// O_DIRECT where the file system has it. Throws `not_found` or `io`, and `invalid_argument` for
  /// what is no file or disk (a pipe, a terminal): never waits for another program.
  static std::unique_ptr<File> open(const std::string& path, bool write);
  /// A file that the caller opened and goes on owning; direct where the caller's is. Throws
  /// `invalid_argument` for what is not open for writing, or has no offsets.
  static std::unique_ptr<File> of_descriptor(int descriptor);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  int descriptor() const noexcept { return descriptor_; }
  const std::string& path() const noexcept { return path_; }
  bool direct() const noexcept { return direct_.load(std::memory_order_relaxed); }
  /// From now on through the page cache, transfers under way too if the system has not begun them.
  /// Thread-safe. False when it was so already.
  bool stop_direct() noexcept;
  /// Direct transfers begin and end at multiples of this (64 KiB at most), at least a page and a
  /// block of the file system: neighbours that go through the page cache then share none with them.
  /// 1 when not direct.
  std::int64_t unit() const noexcept { return direct() ? unit_ : 1; }
  /// What memory of direct transfers must be a multiple of.
  std::uint64_t memory_alignment() const noexcept { return memory_alignment_; }
  /// Of what is open for writing.
  WriteConflicts* write_conflicts() const noexcept { return write_conflicts_.get(); }
  std::int64_t size() const;
  /// Has the system set space aside where a write makes the file longer, so that a full disk is
  /// known before and blocks need not be written one after the other. Throws `io` where it is full.
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
