// A file mapped into memory for reading.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

namespace anyaccel::llm {

/// Maps a whole file privately: writing to a page copies the page and does not change the file. The
/// object is shared, because tensors in the mapping keep it alive. Thread-safe after construction.
///
/// If another process truncates the file while it is mapped, reading the missing part kills this
/// process with SIGBUS. Replace files by renaming, as AtomicFile does; never write into them.
class MappedFile {
 public:
  /// Throws `not_found`, or `io` with the system's error message.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  /// Removes the file's pages from this process's memory. The next access reads them again, usually
  /// from the page cache. Changes to the mapping are lost.
  void release() const noexcept;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace anyaccel::llm
