// A file mapped into memory for reading.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

namespace anyaccel::llm {

/// Pages of a whole file, read from it; who writes to them all the same gets a page of its own, and
/// the file stays as it is. Shared: tensors that look into it keep it alive. Thread-safe once made.
/// A file that another process cuts shorter while it is mapped ends this process (SIGBUS) when the
/// lost part is read: replace files by renaming, as AtomicFile does, and never write into them.
class MappedFile {
 public:
  /// Throws `not_found`, or `io` with the system's reason.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace anyaccel::llm
