// A value of --bind_core_list is accepted or rejected. The CPUs of an accepted list are ascending
// and distinct, and round-trip through the format with ranges.
// sources: launch/core_list.cpp topology/cpu_list.cpp base/error.cpp base/untrusted_text.cpp
#include "launch/core_list.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "anyaccel/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  try {
    const auto cpus = launch::parse_core_list({reinterpret_cast<const char*>(data), size});
    if (cpus.empty()) std::abort();
    for (std::size_t i = 1; i < cpus.size(); ++i)
      if (cpus[i - 1] >= cpus[i]) std::abort();
    if (launch::parse_core_list(topology::format_cpu_list(cpus)) != cpus) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
