#include "backends/cpu/malloc_tuning.h"

#include <string>

#include "base/env.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace anyaccel::backends::cpu {

namespace {

constexpr long kMost = 2047;  // M_TRIM_THRESHOLD is an int

[[maybe_unused]] bool user_says_what_malloc_does() {
  return env("MALLOC_TRIM_THRESHOLD_") || env("MALLOC_MMAP_THRESHOLD_") ||
         env("GLIBC_TUNABLES").value_or("").find("glibc.malloc.") != std::string::npos;
}

}  // namespace

void keep_freed_memory() {
  [[maybe_unused]] const long megabytes =
      env_int("ANYACCEL_HOST_CACHE_MB", 0, kMost).value_or(kMost);
#ifdef __GLIBC__
  if (megabytes == 0 || user_says_what_malloc_does()) return;
  // Set both: if only one is set, malloc no longer adapts the other, which stays at 128 KiB. 32 MiB
  // is the maximum of M_MMAP_THRESHOLD.
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, static_cast<int>(megabytes << 20));
#endif
}

}  // namespace anyaccel::backends::cpu
