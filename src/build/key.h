// Which binary of an op is meant: everything that changes it, as text and as a digest.
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

/// What a build is for.
struct Target {
  std::string arch;  ///< -march of the baseline, for example "x86-64-v3"; empty: the compiler's own
  std::vector<std::string> cuda_archs;  ///< "80", "90+PTX"; empty: kDefaultCudaArchs
};

/// The two digests. `content` is what a library must agree on to be right here; it can be told
/// without a compiler, so that prebuilt libraries need none. `key` also covers the compiler and
/// where it looks: the cache goes by it.
struct Key {
  std::vector<std::pair<std::string, std::string>> content_parts;
  std::vector<std::pair<std::string, std::string>> tool_parts;
  std::string content;
  std::string key;  ///< empty until add_tools()
};

/// ANYACCEL_OP_ARCH; ANYACCEL_CUDA_ARCHS, else TORCH_CUDA_ARCH_LIST. Throws `invalid_argument` for
/// what cannot be, and for "native": what is built must run on the other machines of its user too.
Target target_from_environment();
/// Checks one list or name of those. Throws as above.
ANYACCEL_API std::vector<std::string> parse_cuda_archs(const std::string& text);
ANYACCEL_API std::string checked_arch(const std::string& text);

/// The files that an op is built from: its sources, and the headers that they include, directly or
/// indirectly, from the op's folder, source_folders() and include/anyaccel. Returns sorted pairs
/// (name in the key, path). Throws `not_found` if a source is missing.
ANYACCEL_API std::vector<std::pair<std::string, std::filesystem::path>> key_files(
    const Op& op, const Paths& paths);

/// Reads and hashes those files. `torch` is null for ops without LibTorch.
Key content_key(const Op& op, const Paths& paths, const LibTorch* torch, const Target& target);

/// Completes `key.key`. `tools`: (name, identity) of compilers; `search`: search_environment().
void add_tools(Key& key, const std::vector<std::pair<std::string, std::string>>& tools,
               const std::vector<std::string>& search);

}  // namespace anyaccel::build
