#include "backends/sim/counts.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "backends/sim/runtime.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"

namespace anyaccel::backends::sim {

void write_counts() noexcept {
  try {
    auto file = env("SIM_COUNTS");
    if (!file) return;
    if (const auto at = file->find("%p"); at != std::string::npos)
      file->replace(at, 2, std::to_string(::getpid()));
    std::uint64_t allocations = 0, launches = 0;
    for (const auto& device : runtime().devices) {
      allocations = std::max(allocations, device->allocations.most());
      launches = std::max(launches, device->launches.most());
    }
    write_file_atomically(*file, "{\"allocations\": " + std::to_string(allocations) +
                                     ", \"launches\": " + std::to_string(launches) + "}\n");
  } catch (const std::exception& error) {
    log(LogLevel::error, error.what());
  }
}

}  // namespace anyaccel::backends::sim
