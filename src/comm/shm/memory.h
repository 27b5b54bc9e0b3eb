// Memory that processes of one node share. Free of torch.
#pragma once

#include <cstddef>
#include <string>

namespace anyaccel::ops::shm {

/// A mapped piece of shared memory: without a name (memfd) or a file in a mount such as /dev/shm.
/// Readable and writable by this user alone (0600). All pages exist before the first write: a mount
/// that is too small is an error here and no SIGBUS later.
class Memory {
 public:
  /// Memory without a name: nothing of it can be left behind. Others open it by path().
  /// `unavailable` when there is not enough.
  static Memory anonymous(std::size_t bytes);
  /// The same in `folder`: a file that never has a name. `unavailable` when the mount is too small,
  /// `invalid_argument` when the folder does not lie on this machine (see is_local()), `io`
  /// otherwise.
  static Memory in_folder(const std::string& folder, std::size_t bytes);
  /// The same with a random name, until remove_name(), for ranks that cannot see this process.
  static Memory file(const std::string& folder, std::size_t bytes);
  /// What another process of this user made. `unavailable` when it cannot be opened or is not what
  /// it should be.
  static Memory open(const std::string& path, std::size_t bytes);

  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  /// Removes the name too.
  ~Memory();

  void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  /// How other processes of the node open it.
  const std::string& path() const noexcept { return path_; }
  /// The memory lives on without it.
  void remove_name() noexcept;
  /// Of memory that open() gave: its name, if it has one, goes with this object too. So a killed
  /// maker leaves no name behind.
  void share_name() noexcept;

  /// Marks `place` as held through this object until it or the process ends, however it ends;
  /// forked children do not hold it.
  void hold(int place) const;
  /// Whether the place is held, but not through this object.
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

/// Removes files that file() made in `folder` and that killed processes could not remove: of this
/// user, held by nobody.
void remove_leftovers(const std::string& folder) noexcept;

/// Whether a file system of this type (statfs::f_type) is this machine's own memory or disk. Pages
/// of a network's are not shared between machines, and what one process writes reaches another late
/// or never. What is not known is taken for a network's.
bool is_local(unsigned long type) noexcept;

/// 32 hexadecimal digits that nobody can guess.
std::string random_token();

}  // namespace anyaccel::ops::shm
