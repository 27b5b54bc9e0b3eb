// Builds the prebuilt ops during AnyAccel's own build, with the same build service, descriptions
// and keys as on a user's machine.
//
// anyaccel_build_ops --out FOLDER [--compiler CXX] [--skip] [--machine] [--fatal-warnings]
//     [--depfile FILE TARGET] DESCRIPTION...
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "base/built_traits.h"
#include "build/service.h"

namespace {

/// True if this machine has a device that the op supports, according to the probes in the backends'
/// traits. Backends without a probe count as present, because they need no device or can be
/// detected only through torch; `--skip` skips their ops if they cannot be built.
bool serves_machine(const anyaccel::build::Description& op) {
  for (const auto* traits : anyaccel::built_traits())
    if (op.serves(traits->name) && (traits->probe == nullptr || traits->probe().device_count > 0))
      return true;
  return op.serves("*");
}

/// A dependency file for make and ninja: `target` is rebuilt if one of the added files changes.
class Depfile {
 public:
  Depfile(const std::string& path, const std::string& target) : out_(path) {
    out_ << escaped(target) << ":";
  }
  void add(const std::string& file) {
    out_ << " \\\n  " << escaped(std::filesystem::weakly_canonical(file).string());
  }
  bool finish() { return static_cast<bool>(out_ << "\n" << std::flush); }

 private:
  static std::string escaped(const std::string& path) {
    std::string out;
    for (const char letter : path) {
      if (letter == ' ' || letter == '#' || letter == '\\') out += '\\';
      if (letter == '$') out += '$';
      out += letter;
    }
    return out;
  }
  std::ofstream out_;
};

}  // namespace

int main(int argc, char** argv) {
  using namespace anyaccel::build;
  std::string out, compiler, depfile, target;
  bool skip = false, machine = false, fatal_warnings = false;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--out" && i + 1 < argc) {
      out = argv[++i];
    } else if (word == "--compiler" && i + 1 < argc) {
      compiler = argv[++i];
    } else if (word == "--depfile" && i + 2 < argc) {
      depfile = argv[++i];
      target = argv[++i];
    } else if (word == "--skip") {
      skip = true;  // skip ops that cannot be built on this machine
    } else if (word == "--fatal-warnings") {
      fatal_warnings = true;
    } else if (word == "--machine") {
      machine = true;
    } else {
      files.push_back(word);
    }
  }
  if (out.empty() || files.empty())
    return std::fputs(
               "usage: anyaccel_build_ops --out FOLDER [--compiler CXX] [--skip] [--machine] "
               "[--fatal-warnings] "
               "[--depfile FILE TARGET] FILE.op...\n",
               stderr),
           2;
  try {
    auto settings = default_settings(recorded_libtorch());
    settings.compiler = compiler;
    settings.compile_only = !settings.target.cuda_archs.empty();
    // With sanitizers, g++ emits false warnings, so warnings are not errors in such builds.
    settings.fatal_warnings = fatal_warnings && sanitizer_flags().empty();
    std::optional<Depfile> dependencies;
    if (!depfile.empty()) dependencies.emplace(depfile, target);
    for (const auto& file : files) {
      const auto op = read_op(file);
      if (dependencies)
        for (const auto& [name, path] : key_files(op, settings.paths))
          dependencies->add(path.string());
      if (machine && !serves_machine(op.description)) {
        std::printf("not prebuilt: %s (this machine has no device for it)\n",
                    op.description.name.c_str());
        continue;
      }
      try {
        build_prebuilt(op, settings, out);
      } catch (const anyaccel::Error& error) {
        if (!skip || error.code() != anyaccel::ErrorCode::unavailable) throw;
        std::printf("not prebuilt: %s\n", error.what());
      }
    }
    if (dependencies && !dependencies->finish())
      throw std::runtime_error("cannot write " + depfile);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "anyaccel_build_ops: %s\n", error.what()), 1;
  }
  return 0;
}
