#include "backends/cpu/dtypes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <exception>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace anyaccel::backends::cpu {

namespace {

using c10::ScalarType;

/// Calls an operator that takes no arguments and returns a bool. Returns false if this torch does
/// not have it.
bool ask_torch(const char* name) noexcept try {
  const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!op) return false;
  torch::jit::Stack stack;
  op->callBoxed(stack);
  return !stack.empty() && stack.back().toBool();
} catch (const std::exception&) {
  return false;
}

bool cpu_multiplies_bf16() noexcept {
#if defined(__x86_64__)
  // CPUs with AMX have this feature too.
  return __builtin_cpu_supports("avx512bf16") != 0;
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kHwcap2Bf16 = 1UL << 14;  // HWCAP2_BF16 in the Linux headers
  return (::getauxval(AT_HWCAP2) & kHwcap2Bf16) != 0;
#else
  return false;
#endif
}

/// oneDNN accepts bf16 on every CPU with AVX-512, but emulates it if the CPU has no bf16
/// instructions.
bool fast_bf16() noexcept {
  static const bool answer =
      ask_torch("mkldnn::_is_mkldnn_bf16_supported") && cpu_multiplies_bf16();
  return answer;
}

bool fast_fp16() noexcept {
  static const bool answer = ask_torch("mkldnn::_is_mkldnn_fp16_supported");
  return answer;
}

constexpr DtypeSupport kAll{.storable = true, .computable = true, .fast = true, .reducible = true};

}  // namespace

DtypeSupport dtype_support(ScalarType dtype) {
  DtypeSupport support = kAll;
  switch (dtype) {
    case ScalarType::Double:
    case ScalarType::Float:
    case ScalarType::Long:
    case ScalarType::Int:
    case ScalarType::Char:
    case ScalarType::Byte: return support;
    case ScalarType::Half: support.fast = fast_fp16(); return support;
    case ScalarType::BFloat16: support.fast = fast_bf16(); return support;
    // gloo does not support these types (Python's torch.distributed sends complex numbers as
    // pairs).
    case ScalarType::Short:
    case ScalarType::ComplexFloat:
    case ScalarType::ComplexDouble: support.reducible = false; return support;
    // These types support some arithmetic, but not matrix products.
    case ScalarType::Bool: return {.storable = true, .reducible = true};
    case ScalarType::UInt16:
    case ScalarType::UInt32:
    case ScalarType::UInt64:
    case ScalarType::ComplexHalf:
    // torch can multiply 8-bit floats but cannot add them. These types only store weights, which
    // are converted before computing.
    case ScalarType::Float8_e4m3fn:
    case ScalarType::Float8_e5m2:
    case ScalarType::Float8_e4m3fnuz:
    case ScalarType::Float8_e5m2fnuz:
    case ScalarType::Float8_e8m0fnu: return {.storable = true};
    // Tensors of quantized and packed types can be created, but not copied or converted.
    default: return {};
  }
}

}  // namespace anyaccel::backends::cpu
