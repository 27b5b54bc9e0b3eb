// The text file <op>.op that says what an op is made from. docs/reference/op-builders.md lists its
// keys.
//
// One `key = value` a line; `#` begins a comment line; lists repeat their key. The first line that
// is neither empty nor a comment is `anyaccel_op = 1`, the version of this format.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::build {

/// What one run of the compiler makes an object of: a source, or several that it reads one after
/// the other, and its flags.
struct Source {
  /// At least one; relative to the op's source folder or, if `shared`, to the parent of ops/.
  std::vector<std::string> files;
  std::vector<std::string> flags = {};
  bool shared = false;  ///< from `shared_source`: several ops use it
  bool is_cuda() const { return files.back().ends_with(".cu"); }
  std::string name() const;  ///< all files, with a blank between them
};

/// A header that the machine must have.
struct NeededHeader {
  std::string header;
  std::string package;  ///< what to install to get it; may be empty
};

struct ANYACCEL_API Description {
  std::string class_name;             ///< "CPUAdamBuilder"
  std::string name;                   ///< "cpu_adam"
  std::vector<std::string> backends;  ///< names of backends; "*" is every one
  std::vector<Source> sources;  ///< in the order of the file; those that end in .cu go to nvcc
  std::vector<NeededHeader> headers;  ///< looked for before anything is compiled
  std::vector<std::string> links;     ///< libraries, without lib and .so
  std::vector<std::string> flags;     ///< for all sources
  std::vector<std::string> includes;  ///< folders below the op's
  std::string kernel_path;  ///< where the sources lie, below the op's folder; empty: in it
  std::string
      prefix_variable;  ///< variable that names a prefix with include and lib, for example CCL_ROOT
  std::vector<std::string> prefixes;  ///< where a vendor's installer puts it; absolute
  std::string compiler;               ///< program or path; empty: CXX or the system's
  std::string python;  ///< folder of Python's headers, absolute: the library is an extension module
                       ///< of Python
  bool torch = true;   ///< LibTorch's headers and libraries

  bool serves(std::string_view backend) const;
  /// The same by its name, not by `*`.
  bool names(std::string_view backend) const;
  bool needs_nvcc() const;
};

/// Throws `corrupt` with the line, or `version_mismatch` for another version of the format.
ANYACCEL_API Description parse_description(std::string_view text);

/// An op as it lies on the disk.
struct Op {
  Description description;
  std::filesystem::path file;  ///< the description; absolute
  std::filesystem::path folder() const { return file.parent_path(); }
  std::filesystem::path source_folder() const { return folder() / description.kernel_path; }
};

/// Throws what parse_description() throws, naming the file, and `not_found`.
ANYACCEL_API Op read_op(const std::filesystem::path& file);

}  // namespace anyaccel::build
