// Memory shared by processes on one node. Does not use torch.
#pragma once

#include <cstddef>
#include <string>

namespace anyaccel::ops::shm {

/// A mapped block of shared memory: anonymous (memfd), or a file in a mount such as /dev/shm. Only
/// this user can read and write it (0600). All pages are allocated on creation, so a mount that is
/// too small causes an error immediately instead of a SIGBUS later.
class Memory {
 public:
  /// Creates anonymous memory, which the kernel frees when no process uses it anymore. Other
  /// processes open it through path(). Throws `unavailable` if there is not enough memory.
  static Memory anonymous(std::size_t bytes);
  /// Like anonymous(), but the memory is an unnamed file in `folder`. Throws `unavailable` if the
  /// mount is too small, `invalid_argument` if the folder is not local (see is_local()), and `io`
  /// otherwise.
  static Memory in_folder(const std::string& folder, std::size_t bytes);
  /// Like in_folder(), but the file has a random name until remove_name() is called. For ranks that
  /// cannot open this process's files under /proc.
  static Memory file(const std::string& folder, std::size_t bytes);
  /// Opens memory that another process of this user created. Throws `unavailable` if it cannot be
  /// opened or does not have the expected type, owner, mode and size.
  static Memory open(const std::string& path, std::size_t bytes);

  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  /// Releases the memory and unlinks the file, if any.
  ~Memory();

  void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  /// The path through which other processes on the node open the memory.
  const std::string& path() const noexcept { return path_; }
  /// Removes the file name. The memory itself stays valid.
  void remove_name() noexcept;
  /// Makes this object also remove the file name, if there is one. For memory from open(): the name
  /// then disappears even if the creator was killed.
  void share_name() noexcept;

  /// Locks `place` through this object until the object is destroyed or the process exits for any
  /// reason. Forked children do not inherit the lock.
  void hold(int place) const;
  /// True if `place` is locked through a different object.
  bool held_by_another(int place) const noexcept;

 private:
  friend struct LiveMemory;
  Memory(int descriptor, std::string path, std::size_t bytes, bool named);
  int descriptor_ = -1;
  std::string path_;
  std::size_t bytes_ = 0;
  bool named_ = false;
  void* data_ = nullptr;
};

/// Removes files in `folder` that were created by file() and left behind by killed processes. Only
/// unlocked files of this user are removed.
void remove_leftovers(const std::string& folder) noexcept;

/// True if a file system of this type (statfs::f_type) is local memory or a local disk. Network
/// file systems do not share pages between machines, so writes would reach other processes late or
/// never. Unknown types count as network file systems.
bool is_local(unsigned long type) noexcept;

/// Returns 32 unpredictable hexadecimal digits.
std::string random_token();

}  // namespace anyaccel::ops::shm
