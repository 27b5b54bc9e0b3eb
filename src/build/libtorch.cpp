#include "build/libtorch.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "base/file.h"
#include "build/elf.h"
#include "build/sha256.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

/// Returns the digits and dots that begin at `at`.
std::string number_at(const std::string& text, std::size_t at) {
  return text.substr(at, text.find_first_not_of("0123456789.", at) - at);
}

/// Returns the CUDA version of a LibTorch installation. The major version comes from the names of
/// its libraries. The minor version comes from the package's version files, if they agree on the
/// major version.
std::string cuda_of(const LibTorch& torch) {
  std::string major;
  for (const char* name : {"libc10_cuda.so", "libtorch_cuda.so"}) {
    const auto elf = read_elf(torch.libraries() / name);
    for (const auto& needed : elf ? elf->needed : std::vector<std::string>()) {
      const auto suffix = needed.find(".so.");
      if (major.empty() && needed.starts_with("libcudart") && suffix != std::string::npos)
        major = number_at(needed, suffix + 4);
    }
  }
  major = major.substr(0, major.find('.'));
  std::error_code ignored;
  if (major.empty() && !fs::exists(torch.libraries() / "libtorch_cuda.so", ignored)) return {};
  std::string whole;
  // torch's Python package has the line `cuda: Optional[str] = '13.0'`; LibTorch's archive has the
  // version "2.13.0+cu130".
  if (const auto text = try_read_file(torch.prefix / "version.py")) {
    if (const auto line = text->find("\ncuda"); line != std::string::npos)
      if (const auto quote = text->find_first_of("'\"\n", line + 1);
          (*text)[std::min(quote, text->size())] != '\n')
        whole = number_at(*text, quote + 1);
  } else if (const auto archive = try_read_file(torch.prefix / "build-version")) {
    const auto place = archive->find("+cu");
    const auto digits = place == std::string::npos ? std::string() : number_at(*archive, place + 3);
    if (digits.size() >= 2) whole = digits.substr(0, digits.size() - 1) + "." + digits.back();
  }
  return major.empty() || whole.starts_with(major + ".") ? whole : major;
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

[[noreturn]] void fail(const fs::path& prefix, const std::string& what) {
  throw Error(
      ErrorCode::unavailable, "op builders",
      {.what = "the LibTorch in " + prefix.string() + " cannot be used: " + what,
       .hint = "set ANYACCEL_TORCH_DIR to the LibTorch folder that contains include and lib"});
}

}  // namespace

std::vector<fs::path> LibTorch::includes() const {
  return {prefix / "include", prefix / "include" / "torch" / "csrc" / "api" / "include"};
}

LibTorch read_libtorch(const fs::path& prefix) {
  LibTorch out{.prefix = prefix};
  for (const char* name :
       {"torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"}) {
    const auto header = try_read_file(prefix / "include" / name);
    if (header) out.version = version_of(*header);
    if (!out.version.empty()) break;
  }
  if (out.version.empty()) fail(prefix, "it has no version header");
  Sha256 hash;
  for (const char* name : {"libc10.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_cuda.so"}) {
    const auto identity = library_identity(out.libraries() / name);
    if (identity.empty() && std::string(name).find("_cuda") == std::string::npos)
      fail(prefix, std::string("it has no lib/") + name);
    hash.add(identity + "\n");
  }
  out.cuda = cuda_of(out);
  out.fingerprint = hash.hex().substr(0, 16);
  return out;
}

}  // namespace anyaccel::build
