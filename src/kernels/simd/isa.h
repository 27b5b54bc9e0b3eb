// Run-time selection of the instruction set for kernels on host memory.
#pragma once

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace anyaccel::ops {

/// Instruction sets for which kernels are compiled, if the architecture supports them. On aarch64,
/// each set includes the one before it: `neon_dotprod` adds dot products of bytes, `neon_i8mm`
/// matrix products of bytes, and `neon_bf16` bfloat16 products and conversions. Kernels without a
/// version for these sets use the one for `neon`.
enum class Isa { scalar, neon, avx2, avx512, neon_dotprod, neon_i8mm, neon_bf16 };

inline const char* to_string(Isa isa) noexcept {
  switch (isa) {
    case Isa::neon: return "neon";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::neon_dotprod: return "neon_dotprod";
    case Isa::neon_i8mm: return "neon_i8mm";
    case Isa::neon_bf16: return "neon_bf16";
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
#if defined(__linux__)
  // The bits of HWCAP_ASIMDDP, HWCAP2_I8MM and HWCAP2_BF16, which older system headers lack.
  if (isa == Isa::neon_dotprod) return (getauxval(AT_HWCAP) >> 20 & 1) != 0;
  if (isa == Isa::neon_i8mm)
    return has_isa(Isa::neon_dotprod) && (getauxval(AT_HWCAP2) >> 13 & 1) != 0;
  if (isa == Isa::neon_bf16)
    return has_isa(Isa::neon_i8mm) && (getauxval(AT_HWCAP2) >> 14 & 1) != 0;
#endif
#endif
  return false;
}

#if defined(__aarch64__)
/// Returns true for `neon` and the sets that extend it.
constexpr bool is_neon(Isa isa) noexcept { return isa == Isa::neon || isa >= Isa::neon_dotprod; }
#endif

/// The instruction sets of this architecture except `scalar`, best first.
#if defined(__aarch64__)
constexpr Isa vector_sets[] = {Isa::neon_bf16, Isa::neon_i8mm, Isa::neon_dotprod, Isa::neon};
#else
constexpr Isa vector_sets[] = {Isa::avx512, Isa::avx2};
#endif

/// Returns the instruction set named `wish` if this machine supports it. Otherwise, and if `wish`
/// is null or empty, returns the best one.
inline Isa isa_for(const char* wish) noexcept {
  for (const Isa isa : vector_sets)
    if (has_isa(isa) && (!wish || !*wish || std::strcmp(wish, to_string(isa)) == 0)) return isa;
  if (!wish || !*wish || std::strcmp(wish, "scalar") == 0) return Isa::scalar;
  return isa_for(nullptr);
}

/// Returns the best instruction set that this machine supports. ANYACCEL_OPS_ISA=<name> selects a
/// different one, for tests and comparisons; it is ignored if the machine does not support it.
/// Later calls return the result of the first call.
inline Isa best_isa() noexcept {
  static const Isa best = isa_for(std::getenv("ANYACCEL_OPS_ISA"));
  return best;
}

}  // namespace anyaccel::ops
