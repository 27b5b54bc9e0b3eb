// Reductions over the buffers of several ranks. Does not use torch. The instruction set is chosen
// at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anyaccel::ops::shm {

/// Element type. A complex number counts as two elements of its component type.
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

/// Returns a name for error messages, for example "float32" or "sum".
const char* to_string(Kind kind) noexcept;
const char* to_string(Reduce reduce) noexcept;

constexpr bool is_integer(Kind kind) noexcept { return kind >= Kind::i8 && kind <= Kind::u64; }

/// Returns the size of an element in bytes.
std::size_t size_of(Kind kind) noexcept;
/// False if the reduction is not defined, that is, for an average of integers or booleans.
bool can_reduce(Kind kind, Reduce reduce) noexcept;

/// Kernels for one instruction set.
struct Kernels {
  const char* name;  ///< "avx512", "avx2", "neon_bf16" or "baseline"
  /// Computes out[i] = in[0][i] op in[1][i] op ..., in this order, so that all ranks get the same
  /// bits. Accumulates 16-bit floats in float32 and rounds once. Minimum and maximum propagate NaN.
  /// For booleans, sum and maximum are OR, and product and minimum are AND. `out` may be one of the
  /// inputs. Requires can_reduce().
  void (*reduce)(Kind kind, Reduce reduce, void* out, const void* const* in, int ranks,
                 std::size_t count);
};

/// Returns the kernels for the best instruction set that this CPU supports.
/// ANYACCEL_SHM_KERNELS=avx2 or baseline selects a lower instruction set.
const Kernels& kernels();
/// Returns the kernels for the named instruction set, or null if this CPU or build lacks it. For
/// tests.
const Kernels* kernels(const char* name);

}  // namespace anyaccel::ops::shm
