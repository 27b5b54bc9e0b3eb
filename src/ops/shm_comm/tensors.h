// Dtypes and memory of the tensors that the ops reduce and move. Included only by register.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>

#include "anyaccel/error.h"
#include "comm/shm/reduce.h"
#include "ops/shared/empty.h"

namespace anyaccel::ops::shm {

using at::Tensor;
using c10::ScalarType;

/// Returns the kind of number in a dtype's elements, and how many numbers an element consists of (2
/// for complex dtypes).
inline std::pair<Kind, int> numbers(const char* where, ScalarType type) {
  switch (type) {
    case ScalarType::Float: return {Kind::f32, 1};
    case ScalarType::Double: return {Kind::f64, 1};
    case ScalarType::Half: return {Kind::f16, 1};
    case ScalarType::BFloat16: return {Kind::bf16, 1};
    case ScalarType::Char: return {Kind::i8, 1};
    case ScalarType::Byte: return {Kind::u8, 1};
    case ScalarType::Short: return {Kind::i16, 1};
    case ScalarType::UInt16: return {Kind::u16, 1};
    case ScalarType::Int: return {Kind::i32, 1};
    case ScalarType::UInt32: return {Kind::u32, 1};
    case ScalarType::Long: return {Kind::i64, 1};
    case ScalarType::UInt64: return {Kind::u64, 1};
    case ScalarType::Bool: return {Kind::boolean, 1};
    case ScalarType::ComplexFloat: return {Kind::f32, 2};
    case ScalarType::ComplexDouble: return {Kind::f64, 2};
    case ScalarType::ComplexHalf: return {Kind::f16, 2};
    default:
      throw Error(ErrorCode::unsupported, where,
                  {.what = "this dtype cannot be reduced",
                   .got = c10::toString(type),
                   .want = "floats of 16 to 64 bits, integers, bool or complex numbers",
                   .hint = "convert the tensor to float32 first"});
  }
}

inline void check_complex(const char* where, int parts, Reduce reduce) {
  if (parts == 2 && reduce != Reduce::sum && reduce != Reduce::avg)
    throw Error(
        ErrorCode::unsupported, where,
        {.what = "complex numbers can only be summed or averaged", .got = to_string(reduce)});
}

[[noreturn]] inline void fail_average(const char* where, ScalarType type) {
  throw Error(ErrorCode::unsupported, where,
              {.what = "AVG requires a floating-point dtype",
               .got = c10::toString(type),
               .want = "a floating-point dtype"});
}

inline Reduce reduction(const char* where, const std::string& name, ScalarType type) {
  static const std::map<std::string, Reduce> kNames{
      {"sum", Reduce::sum},         {"avg", Reduce::avg}, {"mean", Reduce::avg},
      {"product", Reduce::product}, {"min", Reduce::min}, {"max", Reduce::max}};
  const auto found = kNames.find(name);
  if (found == kNames.end())
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "unknown reduction",
                 .got = "'" + name + "'",
                 .want = "sum, avg, product, min or max"});
  const auto reduce = found->second;
  const auto [kind, parts] = numbers(where, type);
  check_complex(where, parts, reduce);
  if (!can_reduce(kind, reduce)) fail_average(where, type);
  return reduce;
}

/// A tensor in contiguous host memory: the original tensor if possible, and a copy otherwise.
struct Plain {
  Tensor tensor;
  bool same;
  explicit Plain(const Tensor& from, bool read = true)
      : same(from.is_cpu() && from.is_contiguous() && !from.is_conj() && !from.is_neg()) {
    tensor = same ? from : empty(from.sizes(), from.options().device(at::kCPU));
    if (!same && read) tensor.copy_(from);
  }
  /// Copies the result back if a copy was used. Otherwise, bumps the tensor's version for autograd.
  void finish(const Tensor& to) const {
    if (!same)
      to.copy_(tensor);
    else if (!to.is_inference())
      to.unsafeGetTensorImpl()->bump_version();
  }
  void* data() const { return tensor.mutable_data_ptr(); }
  std::size_t bytes() const { return tensor.nbytes(); }
};

inline Tensor as_bytes(const Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

/// Returns a flat view in which a complex element becomes two numbers.
inline Tensor flat(const Tensor& plain) {
  const auto numbers = plain.view({-1});
  switch (plain.scalar_type()) {
    case ScalarType::ComplexHalf: return numbers.view(at::kHalf);
    case ScalarType::ComplexFloat: return numbers.view(at::kFloat);
    case ScalarType::ComplexDouble: return numbers.view(at::kDouble);
    default: return numbers;
  }
}

}  // namespace anyaccel::ops::shm
