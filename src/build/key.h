// The key of an op's binary: everything that affects the binary, as text and as a digest.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/export.h"
#include "build/description.h"
#include "build/libtorch.h"
#include "build/paths.h"

namespace anyaccel::build {

/// The architectures that a build targets.
struct Target {
  std::string
      arch;  ///< value of -march, for example "x86-64-v3"; empty means the compiler's default
  std::vector<std::string>
      cuda_archs;  ///< for example "80" and "90+PTX"; empty means kDefaultCudaArchs
};

/// Two digests. `content` determines whether a library can be used; it is computed without a
/// compiler, so that prebuilt libraries do not need one. `key` also covers the compiler and its
/// search paths, and identifies the cache entry.
struct Key {
  std::vector<std::pair<std::string, std::string>> content_parts;
  std::vector<std::pair<std::string, std::string>> tool_parts;
  std::string content;
  std::string key;  ///< empty until add_tools()
};

/// Reads ANYACCEL_OP_ARCH, and ANYACCEL_CUDA_ARCHS or, if that is unset, TORCH_CUDA_ARCH_LIST.
/// Throws `invalid_argument` for invalid values and for "native", because the user's other machines
/// may share the cache.
Target target_from_environment();
/// Parse the values of these variables. Both functions throw the same errors as
/// target_from_environment().
ANYACCEL_API std::vector<std::string> parse_cuda_archs(const std::string& text);
ANYACCEL_API std::string checked_arch(const std::string& text);

/// Returns the files that an op is built from: its sources, and the headers that they include,
/// directly or indirectly, from the op's folder, source_folders() and include/anyaccel. The result
/// contains pairs (name in the key, path) and is sorted. Throws `not_found` if a source is missing.
ANYACCEL_API std::vector<std::pair<std::string, std::filesystem::path>> key_files(
    const Op& op, const Paths& paths);

/// Computes `content` from the hashes of key_files(), the flags and the versions. `torch` is null
/// for ops without LibTorch.
Key content_key(const Op& op, const Paths& paths, const LibTorch* torch, const Target& target);

/// Computes `key.key`. `tools` contains (name, identity) for each compiler; `search` is
/// search_environment().
void add_tools(Key& key, const std::vector<std::pair<std::string, std::string>>& tools,
               const std::vector<std::string>& search);

}  // namespace anyaccel::build
