// A file of environment variables is accepted or rejected. The variables of an accepted file
// round-trip.
// sources: launch/environment_file.cpp base/error.cpp base/untrusted_text.cpp base/env.cpp
// sources: base/file.cpp
#include "launch/environment_file.h"

#include <cstdint>
#include <cstdlib>

#include "anyaccel/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  try {
    const auto variables =
        launch::parse_environment_file({reinterpret_cast<const char*>(data), size}, "fuzz");
    std::string text;
    for (const auto& [name, value] : variables) {
      if (name.empty() || value.find('\n') != std::string::npos) std::abort();
      text += name + "=" + value + "\n";
    }
    if (launch::parse_environment_file(text, "again") != variables) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
