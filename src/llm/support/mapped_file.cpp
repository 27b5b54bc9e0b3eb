#include "llm/support/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "anyaccel/error.h"
#include "base/file.h"

namespace anyaccel::llm {

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const int descriptor = open_regular_file(path, "open_file");
  const auto fail = [&](const char* what) {
    const int code = errno;
    ::close(descriptor);
    throw Error(ErrorCode::io, "open_file",
                {.what = std::string(what) + " " + path.string() + ": " + std::strerror(code)});
  };
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) fail("cannot examine");
  auto file = std::shared_ptr<MappedFile>(new MappedFile);
  file->size_ = static_cast<std::size_t>(status.st_size);
  if (file->size_ > 0) {
    void* address =
        ::mmap(nullptr, file->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
    // Without overcommit, a writable private mapping counts as used memory and may fail.
    if (address == MAP_FAILED)
      address = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) fail("cannot map");
    // Best effort: file systems with large folios then read the file into large pages of the page
    // cache, which later processes reuse. Large pages speed up access to the
    // weights, which are read completely for each token.
    ::madvise(address, file->size_, MADV_HUGEPAGE);
    file->data_ = static_cast<const std::byte*>(address);
  }
  ::close(descriptor);
  return file;
}

void MappedFile::release() const noexcept {
  if (data_) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace anyaccel::llm
