// Which instruction set the kernels of the ops on host memory use: chosen when they run, not when
// they are built.
#pragma once

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace anyaccel::ops {

/// Those that kernels are built for; each machine has one after `scalar`.
enum class Isa { scalar, neon, avx2, avx512 };

inline const char* to_string(Isa isa) noexcept {
  switch (isa) {
    case Isa::neon: return "neon";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::scalar: break;
  }
  return "scalar";
}

/// Whether this processor and its operating system run it.
inline bool has_isa(Isa isa) noexcept {
  if (isa == Isa::scalar) return true;
#if defined(__x86_64__)
  // Every processor with AVX2 has F16C; not every compiler knows the question.
  if (isa == Isa::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::avx512)
    return has_isa(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
  if (isa == Isa::neon) return true;
#endif
  return false;
}

/// The best one that this machine has; ANYACCEL_OPS_ISA=<name> chooses a lesser one, for tests and
/// for comparing. The answer is that of the first call.
inline Isa best_isa() noexcept {
  static const Isa best = [] {
    const char* wish = std::getenv("ANYACCEL_OPS_ISA");
    for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::neon})
      if (has_isa(isa) && (!wish || !*wish || std::strcmp(wish, to_string(isa)) == 0)) return isa;
    if (!wish || !*wish || std::strcmp(wish, "scalar") == 0) return Isa::scalar;
    for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::neon})
      if (has_isa(isa)) return isa;
    return Isa::scalar;
  }();
  return best;
}

}  // namespace anyaccel::ops
