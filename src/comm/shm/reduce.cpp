// The baseline loops, which run on every CPU of the architecture, and the run-time selection of an
// instruction set.
#include "comm/shm/reduce.h"

#include <cstdlib>
#include <cstring>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#define ANYACCEL_SHM_SET baseline
#include "comm/shm/reduce_loops.h"

namespace anyaccel::ops::shm {

namespace {

constexpr Kernels kBaseline{"baseline", &baseline::reduce_all};

}  // namespace

#if defined(__aarch64__)
extern const Kernels kernels_baseline;
const Kernels kernels_baseline = kBaseline;
extern const Kernels kernels_neon_bf16;
#elif defined(__x86_64__)
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif

const char* to_string(Kind kind) noexcept {
  static constexpr const char* kNames[] = {"float32", "float64", "float16", "bfloat16", "int8",
                                           "uint8",   "int16",   "uint16",  "int32",    "uint32",
                                           "int64",   "uint64",  "bool"};
  const auto number = static_cast<std::size_t>(kind);
  return number < sizeof(kNames) / sizeof(kNames[0]) ? kNames[number] : "no dtype";
}

const char* to_string(Reduce reduce) noexcept {
  static constexpr const char* kNames[] = {"sum", "product", "min", "max", "avg"};
  const auto number = static_cast<std::size_t>(reduce);
  return number < sizeof(kNames) / sizeof(kNames[0]) ? kNames[number] : "no reduction";
}

std::size_t size_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::i8:
    case Kind::u8:
    case Kind::boolean: return 1;
    case Kind::f16:
    case Kind::bf16:
    case Kind::i16:
    case Kind::u16: return 2;
    case Kind::f32:
    case Kind::i32:
    case Kind::u32: return 4;
    default: return 8;
  }
}

bool can_reduce(Kind kind, Reduce reduce) noexcept {
  return reduce != Reduce::avg || !(is_integer(kind) || kind == Kind::boolean);
}

const Kernels* kernels(const char* name) {
#if defined(__x86_64__)
  if (std::strcmp(name, "avx512") == 0)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
               ? &kernels_avx512
               : nullptr;
  if (std::strcmp(name, "avx2") == 0)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernels_avx2
                                                                           : nullptr;
#elif defined(__aarch64__) && defined(__linux__)
  // The bit of HWCAP2_BF16, which older system headers lack.
  if (std::strcmp(name, "neon_bf16") == 0)
    return (getauxval(AT_HWCAP2) >> 14 & 1) != 0 ? &kernels_neon_bf16 : nullptr;
#endif
  return std::strcmp(name, kBaseline.name) == 0 ? &kBaseline : nullptr;
}

#if defined(__aarch64__)
constexpr const char* kVectorSets[] = {"neon_bf16"};
#else
constexpr const char* kVectorSets[] = {"avx512", "avx2"};
#endif

const Kernels& kernels() {
  static const Kernels& best = [] {
    if (const char* wanted = std::getenv("ANYACCEL_SHM_KERNELS"))
      if (const auto* found = kernels(wanted)) return *found;
    for (const char* name : kVectorSets)
      if (const auto* found = kernels(name)) return *found;
    return kBaseline;
  }();
  return best;
}

}  // namespace anyaccel::ops::shm
