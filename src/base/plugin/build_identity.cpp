#include "base/plugin/build_identity.h"

#include "anyaccel/sdk/plugin_build.h"
#include "anyaccel/version.h"

namespace anyaccel {

namespace {

/// Returns "2.13" for "2.13.0". The C++ interfaces of AnyAccel and LibTorch may change whenever the
/// major or minor version changes.
std::string minor_version(const std::string& version) {
  const auto first = version.find('.');
  if (first == std::string::npos) return version;
  return version.substr(0, version.find_first_not_of("0123456789", first + 1));
}

void compare(std::string& out, const char* what, const std::string& theirs,
             const std::string& ours) {
  if (theirs == ours) return;
  out.append(out.empty() ? "" : "; ").append("it was built ").append(what).append(" ");
  out.append(theirs.empty() ? "(unknown)" : theirs)
      .append(", this AnyAccel ")
      .append(what)
      .append(" ")
      .append(ours);
}

void compare_minor(std::string& out, const char* what, const std::string& theirs,
                   const std::string& ours) {
  if (minor_version(theirs) != minor_version(ours)) compare(out, what, theirs, ours);
}

}  // namespace

const BuildIdentity& own_identity() {
  static const BuildIdentity instance{.abi = ANYACCEL_PLUGIN_ABI_VERSION,
                                      .anyaccel = ANYACCEL_VERSION,
                                      .libtorch = ANYACCEL_TORCH_VERSION,
                                      .compiler_abi = ANYACCEL_COMPILER_ABI,
                                      .sanitizer = ANYACCEL_SANITIZER_NAME};
  return instance;
}

std::string identity_mismatch(const BuildIdentity& plugin, const BuildIdentity& ours) {
  std::string out;
  compare(out, "for plugin ABI", std::to_string(plugin.abi), std::to_string(ours.abi));
  // The ABI version covers only the plain C descriptor. The C++ interfaces that plugins use may
  // change with each minor version of AnyAccel.
  compare_minor(out, "for AnyAccel", plugin.anyaccel, ours.anyaccel);
  compare_minor(out, "with LibTorch", plugin.libtorch, ours.libtorch);
  compare(out, "for the compiler ABI", plugin.compiler_abi, ours.compiler_abi);
  compare(out, "with the sanitizer", plugin.sanitizer, ours.sanitizer);
  if (!out.empty()) out += "; rebuild the plugin with the CMake package of the installed AnyAccel";
  return out;
}

const char* sanitizer_name(unsigned kind) noexcept {
  switch (kind) {
    case ANYACCEL_SANITIZER_NONE: return "none";
    case ANYACCEL_SANITIZER_ADDRESS: return "address";
    case ANYACCEL_SANITIZER_THREAD: return "thread";
    case ANYACCEL_SANITIZER_MEMORY: return "memory";
    default: return "unknown";
  }
}

}  // namespace anyaccel
