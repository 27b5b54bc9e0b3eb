// The text file <op>.op that describes how an op is built. docs/reference/op-builders.md lists its
// keys.
//
// Each line is `key = value`. A line that begins with `#` is a comment. A list has one line per
// element, all with the same key. The first line that is neither empty nor a comment is
// `anyaccel_op = 1`, the version of this format.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::build {

/// One translation unit: one or more source files that are compiled together, and their flags.
struct Source {
  /// At least one file. Paths are relative to the op's source folder or, if `shared` is true, to
  /// the parent of ops/.
  std::vector<std::string> files;
  std::vector<std::string> flags = {};
  bool shared = false;  ///< from `shared_source`: used by several ops
  bool is_cuda() const { return files.back().ends_with(".cu"); }
  std::string name() const;  ///< all file names, separated by spaces
};

/// A header that must be installed.
struct NeededHeader {
  std::string header;
  std::string package;  ///< package that contains it; may be empty
};

struct ANYACCEL_API Description {
  std::string class_name;             ///< for example "CPUAdamBuilder"
  std::string name;                   ///< for example "cpu_adam"
  std::vector<std::string> backends;  ///< names of backends; "*" means all
  std::vector<Source>
      sources;  ///< in the order of the description; .cu files are compiled with nvcc
  std::vector<NeededHeader> headers;  ///< presence is checked before compiling
  std::vector<std::string> links;     ///< library names without the prefix lib and the suffix .so
  std::vector<std::string> flags;     ///< compiler flags for all sources
  std::vector<std::string> includes;  ///< include folders, relative to the op's folder
  /// Folder of the sources, relative to the op's folder; empty means the op's folder.
  std::string kernel_path;
  /// Environment variable that holds a prefix, that is, a folder with include/ and lib/. Example:
  /// CCL_ROOT.
  std::string prefix_variable;
  std::vector<std::string> prefixes;  ///< the vendor's default prefixes; absolute paths
  std::string compiler;  ///< name or path; empty means CXX or, if unset, the system's compiler
  /// Absolute folder of Python's headers. If set, the library is a Python extension module.
  std::string python;
  bool torch = true;  ///< whether the op uses LibTorch's headers and libraries

  bool serves(std::string_view backend) const;
  /// True if the description lists this backend by name. Unlike serves(), ignores `*`.
  bool names(std::string_view backend) const;
  bool needs_nvcc() const;
};

/// Parses a description. Throws `corrupt`, naming the line, or `version_mismatch` for an
/// unsupported version of the format.
ANYACCEL_API Description parse_description(std::string_view text);

/// A description and its file.
struct Op {
  Description description;
  std::filesystem::path file;  ///< absolute path of the description
  std::filesystem::path folder() const { return file.parent_path(); }
  std::filesystem::path source_folder() const { return folder() / description.kernel_path; }
};

/// Reads a description. Throws `not_found`, and the same errors as parse_description(), naming the
/// file.
ANYACCEL_API Op read_op(const std::filesystem::path& file);

}  // namespace anyaccel::build
