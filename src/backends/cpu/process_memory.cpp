#include "backends/cpu/process_memory.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/untrusted_text.h"

namespace anyaccel::backends::cpu {

bool counts_process_memory() {
  constexpr const char* kName = "ANYACCEL_CPU_MEMORY";
  const auto value = env(kName).value_or("tensors");
  if (value == "rss") return true;
  if (value == "tensors") return false;
  throw Error(ErrorCode::invalid_argument, kName,
              {.what = "unknown memory counting mode",
               .got = quoted_text(value),
               .want = "tensors or rss"});
}

MemoryStat ProcessMemory::read() const {
  const auto now = resident_memory();
  auto seen = seen_.load(std::memory_order_relaxed);
  if (seen < 0) return {now.bytes, std::max(now.bytes, now.peak_bytes)};
  while (seen < now.bytes &&
         !seen_.compare_exchange_weak(seen, now.bytes, std::memory_order_relaxed)) {
  }
  return {now.bytes, std::max(seen, now.bytes)};
}

void ProcessMemory::reset_peak() {
  seen_.store(reset_peak_() ? -1 : resident_bytes(), std::memory_order_relaxed);
}

}  // namespace anyaccel::backends::cpu
