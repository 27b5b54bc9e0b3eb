// Memory that processes of one node share. Free of torch.
#pragma once

#include <cstddef>
#include <string>

namespace anyaccel::ops::shm {

/// A mapped piece of shared memory: without a name (memfd) or a file in a mount such as /dev/shm. Readable and writable by this
/// user alone (0600). All pages exist before the first write: a mount that is too small is an error here and no SIGBUS later.
class Memory {
 public:
  /// Memory without a name: nothing of it can be left behind. Others open it by path(). `unavailable` when there is not enough.
  static Memory anonymous(std::size_t bytes);
  /// A file with a random name in `folder`, until remove_name(). `unavailable` when the mount is too small, `io` otherwise.
  static Memory file(const std::string& folder, std::size_t bytes);
  /// What another process of this user made. `unavailable` when it cannot be opened or is not what it should be.
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

  /// Marks `place` as held by this process until it ends, however it ends. One process may hold several places.
  void hold(int place) const;
  /// Whether a process other than this one holds the place.
  bool held_by_another(int place) const noexcept;

 private:
  Memory(int descriptor, std::string path, std::size_t bytes, bool named);
  int descriptor_ = -1;
  std::string path_;
  std::size_t bytes_ = 0;
  bool named_ = false;
  void* data_ = nullptr;
};

/// Removes files that file() made in `folder` and that a killed process could not remove: of this user, held by nobody.
void remove_leftovers(const std::string& folder) noexcept;

/// 32 hexadecimal digits that nobody can guess.
std::string random_token();

}  // namespace anyaccel::ops::shm
