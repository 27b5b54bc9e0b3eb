#include "llm/zero/scratch_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "anyaccel/error.h"

namespace anyaccel::llm {

namespace {

constexpr const char* kWhere = "offload_optimizer";
constexpr const char* kFullHint =
    "free space there, or pass a folder on another file system with --offload-path";

std::string in_mib(std::int64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

}  // namespace

ScratchFile::ScratchFile(std::filesystem::path folder, std::int64_t bytes)
    : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) fail("cannot create", error.value());
  std::string name = (folder_ / ".optimizer-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);  // creates the file with mode 0600
  if (descriptor_ < 0) fail("cannot create a file in", errno);
  ::unlink(name.c_str());
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  try {
    reserve(bytes);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

ScratchFile::~ScratchFile() {
  try {
    handle_.close();
  } catch (const std::exception&) {  // nothing reads the file again
  }
  ::close(descriptor_);
}

void ScratchFile::fail(const char* what, int error) const {
  throw Error(ErrorCode::io, kWhere,
              {.what = std::string(what) + " " + folder_.string() + ": " + std::strerror(error),
               .hint = "pass a writable folder with --offload-path"});
}

void ScratchFile::reserve(std::int64_t bytes) const {
  struct statvfs system {};
  const bool known = ::fstatvfs(descriptor_, &system) == 0;
  const auto free = static_cast<std::int64_t>(system.f_bavail * system.f_frsize);
  int error = 0;
  if (::fallocate(descriptor_, 0, 0, bytes) != 0) error = errno;
  // Other errors mean that this file system cannot reserve space.
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  if (full || (error != 0 && known && free < bytes))
    throw Error(ErrorCode::io, kWhere,
                {.what = "no space for the optimizer's state in " + folder_.string() + ": " +
                         std::strerror(full ? error : ENOSPC),
                 .got = in_mib(free) + " free",
                 .want = in_mib(bytes),
                 .hint = kFullHint});
  if (::ftruncate(descriptor_, bytes) != 0) fail("cannot resize a file in", errno);
}

template <typename Function>
auto ScratchFile::naming_folder(const Function& function) const {
  try {
    return function();
  } catch (const Error& error) {
    std::string text = error.what();
    if (const auto at = text.find(path_); at != std::string::npos)
      text.replace(at, path_.size(), "the optimizer's state in " + folder_.string());
    throw Error(error.code(), kWhere, {.what = text});
  }
}

ops::AsyncIORequest ScratchFile::start_read(const at::Tensor& tensor, std::int64_t offset) {
  return naming_folder([&] { return handle_.start_read(tensor, path_, offset); });
}

ops::AsyncIORequest ScratchFile::start_write(const at::Tensor& tensor, std::int64_t offset) {
  return naming_folder([&] { return handle_.start_write(tensor, path_, offset); });
}

void ScratchFile::wait(ops::AsyncIORequest& request) const {
  naming_folder([&] { request.wait(); });
}

}  // namespace anyaccel::llm
