// anyaccel_build_ops --out FOLDER --compiler CXX [--skip] [--machine] [--fatal-warnings] DESCRIPTION...: makes prebuilt ops in our own build. Uses the service that
// users have, with the same descriptions and keys.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "base/built_traits.h"
#include "build/service.h"

namespace {

/// Whether a device that the op is for is here, as its backend's traits tell without torch. Those that have no probe need
/// no device, or tell through torch alone; what cannot be built for them is passed over.
bool serves_machine(const anyaccel::build::Description& op) {
  for (const auto* traits : anyaccel::built_traits())
    if (op.serves(traits->name) && (traits->probe == nullptr || traits->probe().device_count > 0)) return true;
  return op.serves("*");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace anyaccel::build;
  std::string out, compiler;
  bool skip = false, machine = false, fatal_warnings = false;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--out" && i + 1 < argc) {
      out = argv[++i];
    } else if (word == "--compiler" && i + 1 < argc) {
      compiler = argv[++i];
    } else if (word == "--skip") {
      skip = true;  // what this machine cannot build is no error
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
               "usage: anyaccel_build_ops --out FOLDER [--compiler CXX] [--skip] [--machine] [--fatal-warnings] "
               "FILE.op...\n",
               stderr),
           2;
  try {
    auto settings = default_settings(recorded_libtorch());
    settings.compiler = compiler;
    settings.compile_only = !settings.target.cuda_archs.empty();
    // What sanitizers insert confuses g++'s guesses, as in the rest of our build.
    settings.fatal_warnings = fatal_warnings && sanitizer_flags().empty();
    for (const auto& file : files) {
      const auto op = read_op(file);
      if (machine && !serves_machine(op.description)) {
        std::printf("not prebuilt: %s, this machine has no device for it\n", op.description.name.c_str());
        continue;
      }
      try {
        build_prebuilt(op, settings, out);
      } catch (const anyaccel::Error& error) {
        if (!skip || error.code() != anyaccel::ErrorCode::unavailable) throw;
        std::printf("not prebuilt: %s\n", error.what());
      }
    }
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "anyaccel_build_ops: %s\n", error.what()), 1;
  }
  return 0;
}
