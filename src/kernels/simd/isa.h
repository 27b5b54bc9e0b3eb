// Run-time selection of the instruction set for kernels on host memory.
#pragma once

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace anyaccel::ops {

/// Instruction sets for which kernels are compiled, if the architecture supports them.
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

/// Returns true if this processor and its operating system support the instruction set.
inline bool has_isa(Isa isa) noexcept {
  if (isa == Isa::scalar) return true;
#if defined(__x86_64__)
  // Every processor with AVX2 also has F16C, which not every compiler can query.
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

/// Returns the best instruction set that this machine supports. ANYACCEL_OPS_ISA=<name> selects a
/// different one, for tests and comparisons; it is ignored if the machine does not support it.
/// Later calls return the result of the first call.
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
