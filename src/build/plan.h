// The commands that build an op. A pure function of what is known; executor.h runs them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "build/description.h"
#include "build/key.h"
#include "build/libtorch.h"
#include "build/paths.h"

namespace anyaccel::build {

/// For GPUs from 2020 on, and the newer ones through PTX.
inline constexpr const char* kDefaultCudaArchs[] = {"80", "90+PTX"};

/// One compilation.
struct Step {
  std::string source;  ///< as the description has it
  std::filesystem::path object;
  std::filesystem::path list() const {
    return object.string() + ".d";
  }                                  ///< of the files that it was made from
  std::vector<std::string> command;  ///< command[0] is the program
};

struct Plan {
  std::vector<Step> steps;  ///< in any order, side by side
  std::vector<std::string> link;
  std::filesystem::path library;
};

/// Programs by path.
struct Tools {
  std::string compiler;
  std::string nvcc;    ///< empty when the op has no CUDA sources
  std::string ccache;  ///< empty: none
  std::string compiler_identity = {};
  std::string nvcc_identity = {};
};

/// "libanyaccel_op_<name>.so".
ANYACCEL_API std::string library_name(const Description& description);

/// Everything that is told to the compiler about a source, but for folders and for what only makes
/// the compiler itself faster.
std::vector<std::string> source_flags(const Op& op, const Source& source, const Target& target);
/// -gencode for the architectures.
std::vector<std::string> cuda_flags(const Target& target);
/// Of the sanitizer that this AnyAccel was built with; none in usual builds.
ANYACCEL_API std::vector<std::string> sanitizer_flags();

/// All commands; everything they write lies in `folder`.
Plan make_plan(const Op& op, const Paths& paths, const LibTorch* torch, const Target& target,
               const Tools& tools, const std::filesystem::path& folder);

/// Sources that show whether what the description needs is there: each asks for one thing. Compiled
/// to nowhere.
struct Question {
  std::string what;                  ///< "header hwy/highway.h"
  std::string hint;                  ///< "install libhwy-dev"
  std::vector<std::string> command;  ///< exits with 0 when it is there
};
std::vector<Question> make_questions(const Op& op, const Paths& paths, const Tools& tools);

}  // namespace anyaccel::build
