// The commands that build an op, computed without running anything. executor.h runs them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"
#include "build/description.h"
#include "build/key.h"
#include "build/libtorch.h"
#include "build/paths.h"

namespace anyaccel::build {

/// Architectures of NVIDIA GPUs since 2020. For GPUs newer than compute capability 9.0, the driver
/// compiles the PTX.
inline constexpr const char* kDefaultCudaArchs[] = {"80", "90+PTX"};

struct Step {
  std::string source;  ///< name in the description
  std::filesystem::path object;
  std::filesystem::path list() const { return object.string() + ".d"; }  ///< dependency file (-MD)
  std::vector<std::string> command;  ///< the first word is the program
};

struct Plan {
  std::vector<Step> steps;  ///< may run in any order and in parallel
  std::vector<std::string> link;
  std::filesystem::path library;
};

/// Paths and identities of the tools that a build runs.
struct Tools {
  std::string compiler;
  std::string nvcc;    ///< empty if the op has no CUDA sources
  std::string ccache;  ///< empty if ccache is not used
  std::string compiler_identity = {};
  std::string nvcc_identity = {};
};

/// Returns "libanyaccel_op_<name>.so", or "libanyaccel_op_<name>_cuda.so" for CUDA sources.
ANYACCEL_API std::string library_name(const Description& description);

/// Returns a source's compiler flags that affect the binary, without include folders.
std::vector<std::string> source_flags(const Op& op, const Source& source, const Target& target);
/// Returns the flags that GCC gets in addition, or an empty list for other compilers.
/// `architecture` is ANYACCEL_ARCHITECTURE.
std::vector<std::string> gcc_flags(const std::string& identity, std::string_view architecture);
/// Returns the -gencode flags for the architectures.
std::vector<std::string> cuda_flags(const Target& target);
/// Returns the flags for the sanitizer that AnyAccel was built with, or an empty list in builds
/// without a sanitizer.
ANYACCEL_API std::vector<std::string> sanitizer_flags();

/// Returns all commands for a build. They write only to `folder`.
Plan make_plan(const Op& op, const Paths& paths, const LibTorch* torch, const Target& target,
               const Tools& tools, const std::filesystem::path& folder);

/// A command that checks whether one requirement of the description is installed. The command does
/// not write any files.
struct Question {
  std::string what;                  ///< for example "the header hwy/highway.h"
  std::string hint;                  ///< for example "install libhwy-dev"
  std::vector<std::string> command;  ///< exits with 0 if the requirement is met
};
std::vector<Question> make_questions(const Op& op, const Paths& paths, const Tools& tools);

}  // namespace anyaccel::build
