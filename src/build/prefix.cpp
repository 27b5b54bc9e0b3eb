#include "build/prefix.h"

#include <link.h>

#include <algorithm>
#include <exception>

#include "base/env.h"
#include "base/file.h"
#include "base/trusted_path.h"
#include "build/paths.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

/// Returns the path of libtorch_cpu.so if this process has loaded it, otherwise the prefix of the
/// LibTorch that AnyAccel was built against.
fs::path torch_folder() {
  std::string out;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        const fs::path path = info->dlpi_name;
        if (path.filename() != "libtorch_cpu.so") return 0;
        *static_cast<std::string*>(result) = path.string();
        return 1;
      },
      &out);
  return out.empty() ? recorded_libtorch() : fs::path(out);
}

/// Returns <prefix> of <prefix>/lib/python3.x/site-packages/..., or an empty path for other paths.
fs::path above_site_packages(const fs::path& path) {
  for (auto at = path; at.has_relative_path(); at = at.parent_path())
    if (at.filename() == "site-packages") return at.parent_path().parent_path().parent_path();
  return {};
}

/// Returns the virtual environment whose Python runs this process, or an empty path if there is
/// none. Reads the command line, because a virtual environment's Python is a symbolic link, which
/// /proc/self/exe would resolve.
fs::path environment_of_this_process() {
  const auto command = try_read_file("/proc/self/cmdline").value_or("");
  fs::path program = command.substr(0, command.find('\0'));
  if (program.has_parent_path() && program.is_relative()) {
    // The path is relative to the working directory at startup. If the program has changed that
    // directory, the virtual environment is not found.
    std::error_code error;
    program = fs::absolute(program, error);
  }
  const auto prefix = program.parent_path().parent_path();
  std::error_code ignored;
  return !prefix.empty() && fs::exists(prefix / "pyvenv.cfg", ignored) ? prefix : fs::path();
}

bool has_all(const fs::path& prefix, const Description& op) {
  std::error_code ignored;
  return std::all_of(op.headers.begin(), op.headers.end(),
                     [&](const auto& header) {
                       return fs::exists(prefix / "include" / header.header, ignored);
                     }) &&
         std::all_of(op.links.begin(), op.links.end(), [&](const auto& name) {
           return fs::exists(prefix / "lib" / ("lib" + name + ".so"), ignored);
         });
}

}  // namespace

std::vector<fs::path> prefix_candidates(const Description& op) {
  std::vector<fs::path> out;
  const auto add = [&](const fs::path& path) {
    if (!path.empty() && path.is_absolute() && std::find(out.begin(), out.end(), path) == out.end())
      out.push_back(path);
  };
  add(env("VIRTUAL_ENV").value_or(""));
  add(environment_of_this_process());
  try {
    add(above_site_packages(torch_folder()));
    add(above_site_packages(own_paths().libraries));
  } catch (const std::exception&) {
    // Ignore the failure of own_paths(), because loading an op reports it.
  }
  // The user did not choose these folders, but code is loaded from them, so they must be trusted.
  for (const auto& folder : op.prefixes)
    if (trust_problem(folder, TrustedKind::folder).empty()) add(folder);
  return out;
}

std::string prefix_of(const Description& op) {
  if (op.prefix_variable.empty()) return {};
  if (const auto given = env(op.prefix_variable.c_str())) return *given;
  // Without headers in the description, a candidate cannot be recognized.
  if (op.headers.empty()) return {};
  for (const auto& candidate : prefix_candidates(op))
    if (has_all(candidate, op)) return candidate.string();
  return {};
}

}  // namespace anyaccel::build
