// An op's description is read or refused by a typed error, and what was read stays below the op's folder.
// sources: build/description.cpp base/file.cpp base/error.cpp base/untrusted_text.cpp
#include "build/description.h"

#include <cstdint>
#include <cstdlib>

#include "anyaccel/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  try {
    const auto op = build::parse_description({reinterpret_cast<const char*>(data), size});
    if (op.name.empty() || op.class_name.empty() || op.sources.empty() || op.backends.empty()) std::abort();
    // "..cpp" is a name like any other.
    const auto leaves = [](const std::string& path) {
      return *std::filesystem::path(path).lexically_normal().begin() == "..";
    };
    for (const auto& source : op.sources) {
      if (source.files.empty()) std::abort();
      for (const auto& file : source.files)
        if (leaves(file) || file.front() == '/') std::abort();
    }
    if (!op.kernel_path.empty() && leaves(op.kernel_path)) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::version_mismatch) std::abort();
  }
  return 0;
}
