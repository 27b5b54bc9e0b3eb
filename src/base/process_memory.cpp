#include "base/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace anyaccel {

std::int64_t resident_bytes() noexcept {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "re"), &std::fclose);
  long long size = 0;
  long long resident = 0;
  if (!file || std::fscanf(file.get(), "%lld %lld", &size, &resident) != 2) return -1;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t peak_resident_bytes() noexcept {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return -1;
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace anyaccel
