#include "build/cuda.h"

#include <algorithm>
#include <array>

#include "base/env.h"
#include "base/log.h"
#include "build/flags.h"

namespace anyaccel::build {

namespace {

std::string major_of(const std::string& version) { return version.substr(0, version.find('.')); }

}  // namespace

std::string nvcc_release(const std::string& identity) {
  constexpr std::string_view kWord = "release ";
  const auto place = identity.find(kWord);
  if (place == std::string::npos) return {};
  const auto begin = place + kWord.size();
  return identity.substr(begin, identity.find_first_not_of("0123456789.", begin) - begin);
}

std::string no_cuda_in(const LibTorch& torch) {
  if (!torch.cuda.empty()) return {};
  return "it has CUDA sources, but the LibTorch in " + torch.prefix.string() + " (" +
         torch.version +
         ") was built without CUDA; use a CUDA build of LibTorch, or compile for another machine: "
         "anyaccel ops build --cuda-archs LIST";
}

std::string toolkit_mismatch(const LibTorch& torch, const std::string& nvcc_identity) {
  const auto release = nvcc_release(nvcc_identity);
  // If only LibTorch's major CUDA version is known, any release with that major version matches.
  if (torch.cuda.empty() || release.empty() || release == torch.cuda ||
      torch.cuda == major_of(release))
    return {};
  const auto both =
      "nvcc is from CUDA " + release + ", but LibTorch was built with CUDA " + torch.cuda;
  if (major_of(release) == major_of(torch.cuda)) {
    log_once(LogLevel::info, "cuda minor", both + ": compatible, because the major versions match");
    return {};
  }
  if (env_flag("DS_SKIP_CUDA_CHECK")) {
    log_once(LogLevel::warning, "cuda major",
             both + ": building anyway because of DS_SKIP_CUDA_CHECK");
    return {};
  }
  return both + ": the major versions must match; set CUDA_HOME to a toolkit for CUDA " +
         major_of(torch.cuda) + ", or DS_SKIP_CUDA_CHECK=1 to build anyway";
}

std::vector<std::string> host_flags_for_nvcc(const std::vector<std::string>& flags) {
  constexpr std::array<std::string_view, 4> kBoth{"-D", "-U", "-O", "-std="};
  std::vector<std::string> out;
  for (const auto& flag : flags) {
    if (is_linker_flag(flag))
      continue;  // linker flags have no effect, and nvcc would split them at commas
    const bool both = std::any_of(kBoth.begin(), kBoth.end(),
                                  [&](auto begin) { return flag.starts_with(begin); });
    out.push_back(both ? flag : "-Xcompiler=" + flag);
  }
  return out;
}

}  // namespace anyaccel::build
