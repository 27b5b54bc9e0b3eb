// A kernel with the memory traffic of an Adam step but without its arithmetic: it reads four
// arrays, writes three, and leaves values that a real step can start from. cpu_adam.py loads it.
#include <cstdint>

#include "ops/shared/parallel.h"

namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDEST \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define WIDEST
#endif

WIDEST void wide(float* p, const float* g, float* m, float* v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    p[i] += g[i];
    m[i] += g[i];
    v[i] += 1.0F;
  }
}

WIDEST void narrow(std::uint16_t* p, const std::uint16_t* g, float* m, float* v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    p[i] = static_cast<std::uint16_t>(p[i] + (g[i] & 1U));
    m[i] += 1.0F;
    v[i] += 1.0F;
  }
}

}  // namespace

/// `bytes` is the size of a parameter and of a gradient: 4 or 2. The states are float32.
extern "C" __attribute__((visibility("default"))) void plain(void* p, const void* g, float* m,
                                                             float* v, std::int64_t n, int bytes) {
  anyaccel::ops::parallel_elements(
      &n, 1, anyaccel::ops::optimizer_grain,
      [&](std::size_t, std::int64_t begin, std::int64_t end) {
        if (bytes == 4)
          wide(static_cast<float*>(p) + begin, static_cast<const float*>(g) + begin, m + begin,
               v + begin, end - begin);
        else
          narrow(static_cast<std::uint16_t*>(p) + begin,
                 static_cast<const std::uint16_t*>(g) + begin, m + begin, v + begin, end - begin);
      });
}
