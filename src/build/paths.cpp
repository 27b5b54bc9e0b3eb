#include "build/paths.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/library_folder.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

Paths find_paths() {
  Paths out{.libraries = own_library_folder("op builders")};
  out.prebuilt = {out.libraries / "anyaccel" / "ops", out.libraries / "ops"};
  // The libraries are in lib or lib/<machine> below the prefix.
  for (auto prefix = out.libraries.parent_path(); prefix != prefix.parent_path();
       prefix = prefix.parent_path()) {
    const auto share = prefix / ANYACCEL_DATADIR / "anyaccel";
    if (!fs::is_directory(share / "ops")) continue;
    out.ops = share / "ops";
    // In a build tree, `include` is a link next to `ops`.
    out.includes = {fs::is_directory(share / "include") ? share / "include"
                                                        : prefix / ANYACCEL_INCLUDEDIR};
    if (out.includes.front() != prefix / ANYACCEL_INCLUDEDIR)
      out.includes.push_back(prefix / ANYACCEL_INCLUDEDIR);
    out.includes.push_back(share);
    return out;
  }
  throw Error(ErrorCode::unavailable, "op builders",
              {.what = "the folder with the op descriptions is missing: no " ANYACCEL_DATADIR
                       "/anyaccel/ops above " +
                       out.libraries.string(),
               .hint = "reinstall AnyAccel, or keep its lib and share folders next to each other"});
}

}  // namespace

const Paths& own_paths() {
  static const Paths instance = find_paths();
  return instance;
}

std::vector<fs::path> source_folders(const Paths& paths) {
  std::vector<fs::path> out{paths.ops};
  for (const char* name : {"kernels", "io", "comm/shm", "comm/ccl"})
    out.push_back(paths.ops.parent_path() / name);
  return out;
}

fs::path folder_of(const Source& source, const Op& op, const Paths& paths) {
  return source.shared ? paths.ops.parent_path() : op.source_folder();
}

std::vector<fs::path> op_files(const fs::path& ops) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(ops, ignored))
    for (const auto& file : fs::directory_iterator(folder.path(), ignored))
      if (file.path().extension() == ".op") out.push_back(file.path());
  std::sort(out.begin(), out.end());
  return out;
}

fs::path recorded_libtorch() { return env("ANYACCEL_TORCH_DIR").value_or(ANYACCEL_RECORDED_TORCH); }

}  // namespace anyaccel::build
