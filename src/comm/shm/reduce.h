// Reductions over the buffers of several ranks. Free of torch; the instruction set is chosen at run
// time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anyaccel::ops::shm {

/// What a number is. Complex numbers are two of their parts.
enum class Kind : std::uint8_t {
  f32,
  f64,
  f16,
  bf16,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  boolean
};

enum class Reduce : std::uint8_t { sum, product, min, max, avg };

/// For messages: "float32", "sum".
const char* to_string(Kind kind) noexcept;
const char* to_string(Reduce reduce) noexcept;

constexpr bool is_integer(Kind kind) noexcept { return kind >= Kind::i8 && kind <= Kind::u64; }

/// Bytes of one element.
std::size_t size_of(Kind kind) noexcept;
/// False where the reduction has no meaning: an average of integers or truths.
bool can_reduce(Kind kind, Reduce reduce) noexcept;

/// One instruction set's kernels.
struct Kernels {
  const char* name;  ///< "avx512", "avx2" or "baseline"
  /// out[i] = in[0][i] op in[1][i] op ..., in this order, so that every rank gets the same bits.
  /// Half-width floats are added up in float32 and rounded once; a NaN wins minimum and maximum;
  /// the sum of truths is "one of them", their product and minimum "all of them". `out` may be one
  /// of `in`. Only where can_reduce().
  void (*reduce)(Kind kind, Reduce reduce, void* out, const void* const* in, int ranks,
                 std::size_t count);
};

/// The best that this CPU has; ANYACCEL_SHM_KERNELS=avx2 or baseline asks for less.
const Kernels& kernels();
/// One set by name, or null where this CPU or build lacks it. For tests.
const Kernels* kernels(const char* name);

}  // namespace anyaccel::ops::shm
