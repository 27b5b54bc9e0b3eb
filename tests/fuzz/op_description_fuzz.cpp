// An op description is accepted, or rejected with a typed error. Accepted paths stay in the op's
// folder, and accepted flags name no files.
// sources: build/description.cpp build/flags.cpp build/host_flags.cpp build/nvcc_flags.cpp
// sources: base/file.cpp base/untrusted_text.cpp base/error.cpp
#include "build/description.h"

#include <cstdint>
#include <cstdlib>

#include "anyaccel/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  try {
    const auto op = build::parse_description({reinterpret_cast<const char*>(data), size});
    if (op.name.empty() || op.class_name.empty() || op.sources.empty() || op.backends.empty())
      std::abort();
    // Only a ".." component leaves the folder. A name such as "..cpp" does not.
    const auto leaves = [](const std::string& path) {
      return *std::filesystem::path(path).lexically_normal().begin() == "..";
    };
    for (const auto& source : op.sources) {
      if (source.files.empty()) std::abort();
      for (const auto& file : source.files)
        if (leaves(file) || file.front() == '/') std::abort();
    }
    const auto check_flags = [](const std::vector<std::string>& flags) {
      for (const auto& flag : flags)
        if (flag.find_first_of("/|@") != flag.npos && !flag.starts_with("-D") &&
            !flag.starts_with("-l") && !flag.starts_with("-L") && !flag.starts_with("-Wl,"))
          std::abort();
    };
    check_flags(op.flags);
    for (const auto& source : op.sources) check_flags(source.flags);
    if (!op.kernel_path.empty() && leaves(op.kernel_path)) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::version_mismatch)
      std::abort();
  }
  return 0;
}
