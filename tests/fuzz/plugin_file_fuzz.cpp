// A plugin's text file is accepted, or rejected with a typed error. The probe that an accepted file
// describes does not crash.
// sources: base/plugin/plugin_file.cpp base/device_files.cpp base/file.cpp base/env.cpp
// sources: base/error.cpp base/untrusted_text.cpp
#include "base/plugin/plugin_file.h"

#include <cstdint>
#include <cstdlib>

#include "anyaccel/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  // Probes must not depend on the device files of this machine.
  [[maybe_unused]] static const int root = setenv("ANYACCEL_DEVICE_ROOT", "/nonexistent", 1);
  try {
    const auto file = parse_plugin_file({reinterpret_cast<const char*>(data), size});
    if (!is_plugin_name(file.name) || file.library.find('/') != std::string::npos) std::abort();
    const auto described = plugin_traits(file);
    if (described.traits.device_type.empty()) std::abort();
    // The probe must not search a folder outside ANYACCEL_DEVICE_ROOT.
    if (described.probe.folder.find("..") != std::string::npos) std::abort();
    probe_plugin(described.probe);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::version_mismatch)
      std::abort();
  }
  return 0;
}
