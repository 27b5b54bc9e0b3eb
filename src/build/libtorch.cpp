#include "build/libtorch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "anyaccel/error.h"
#include "base/file.h"
#include "build/sha256.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

/// Size, the first page (it has the build id) and pages spread over the file: reading hundreds of megabytes would cost
/// more than the load that this decides about.
bool add_sample(Sha256& hash, const fs::path& file) {
  constexpr int kPages = 32;
  std::array<char, 4096> page{};
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  const bool good = descriptor >= 0 && ::fstat(descriptor, &info) == 0;
  if (good) {
    hash.add(std::to_string(info.st_size) + "\n");
    for (int i = 0; i < kPages; ++i) {
      const auto count = ::pread(descriptor, page.data(), i == 0 ? page.size() : 512, info.st_size / kPages * i);
      if (count > 0) hash.add({page.data(), static_cast<std::size_t>(count)});
    }
  }
  if (descriptor >= 0) ::close(descriptor);
  return good;
}

std::string version_of(const std::string& header) {
  std::string out;
  for (const char* part : {"MAJOR", "MINOR", "PATCH"}) {
    const auto place = header.find(std::string("define TORCH_VERSION_") + part + " ");
    if (place == std::string::npos) return {};
    const auto digit = header.find_first_of("0123456789", place);
    const auto end = header.find_first_not_of("0123456789", digit);
    if (digit == std::string::npos) return {};
    out += (out.empty() ? "" : ".") + header.substr(digit, end - digit);
  }
  return out;
}

[[noreturn]] void refuse(const fs::path& prefix, const std::string& what) {
  throw Error(ErrorCode::unavailable, "op builders",
              {.what = "the LibTorch in " + prefix.string() + " cannot be used: " + what,
               .hint = "set ANYACCEL_TORCH_DIR to the folder that has its include and lib"});
}

}  // namespace

std::vector<fs::path> LibTorch::includes() const {
  return {prefix / "include", prefix / "include" / "torch" / "csrc" / "api" / "include"};
}

LibTorch read_libtorch(const fs::path& prefix) {
  LibTorch out{.prefix = prefix};
  for (const char* name : {"torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"}) {
    const auto header = try_read_file(prefix / "include" / name);
    if (header) out.version = version_of(*header);
    if (!out.version.empty()) break;
  }
  if (out.version.empty()) refuse(prefix, "it has no version header");
  Sha256 hash;
  for (const char* name : {"libc10.so", "libtorch_cpu.so"})
    if (!add_sample(hash, out.libraries() / name)) refuse(prefix, std::string("it has no lib/") + name);
  out.fingerprint = hash.hex().substr(0, 16);
  return out;
}

}  // namespace anyaccel::build
