// A CPU list is accepted or rejected. An accepted list round-trips.
// sources: topology/cpu_list.cpp base/error.cpp base/untrusted_text.cpp
#include "topology/cpu_list.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "anyaccel/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  try {
    const auto cpus = topology::parse_cpu_list({reinterpret_cast<const char*>(data), size});
    for (std::size_t i = 1; i < cpus.size(); ++i)
      if (cpus[i - 1] >= cpus[i]) std::abort();
    if (topology::parse_cpu_list(topology::format_cpu_list(cpus)) != cpus) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
