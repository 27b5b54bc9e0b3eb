// Kernels that read their arguments from torch's stack. Torch's templates for a typed kernel take
// half a second of compile time per signature. Rarely called ops are therefore registered as boxed
// kernels, and frequently called ops as typed kernels.
#pragma once

#include <torch/library.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace anyaccel::ops {

template <auto kFunction>
struct Boxed;

/// Argument types are the C++ types for str, int, float, bool and Tensor in a schema. The result is
/// one of these types, a vector of one of them, or void.
template <class Result, class... Arguments, Result (*kFunction)(Arguments...)>
struct Boxed<kFunction> {
  static void call(torch::jit::Stack& stack) {
    take(stack, std::index_sequence_for<Arguments...>());
  }

 private:
  template <class T>
  static T value(const c10::IValue& from) {
    if constexpr (std::is_same_v<T, std::string>)
      return from.toStringRef();
    else if constexpr (std::is_same_v<T, bool>)
      return from.toBool();
    else if constexpr (std::is_floating_point_v<T>)
      return from.toDouble();
    else if constexpr (std::is_integral_v<T>)
      return from.toInt();
    else
      return from.toTensor();
  }

  template <std::size_t... kIndex>
  static void take(torch::jit::Stack& stack, std::index_sequence<kIndex...> /*indices*/) {
    const auto first = stack.size() - sizeof...(Arguments);
    if constexpr (std::is_void_v<Result>) {
      kFunction(value<std::decay_t<Arguments>>(stack[first + kIndex])...);
      stack.resize(first);
    } else {
      c10::IValue result = kFunction(value<std::decay_t<Arguments>>(stack[first + kIndex])...);
      stack.resize(first);
      stack.push_back(std::move(result));
    }
  }
};

/// A single class is used for all kernels, because torch instantiates its templates for each class.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(void (*call)(torch::jit::Stack&)) : call_(call) {}
  void operator()(const c10::OperatorHandle& /*op*/, c10::DispatchKeySet /*keys*/,
                  torch::jit::Stack* stack) {
    call_(*stack);
  }

 private:
  void (*call_)(torch::jit::Stack&);
};

inline void define_boxed(torch::Library& library, const char* schema,
                         void (*call)(torch::jit::Stack&)) {
  library.def(schema,
              torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(call)));
}

/// Usage: `define<&function>(library, "name(str group) -> int")`.
template <auto kFunction>
void define(torch::Library& library, const char* schema) {
  define_boxed(library, schema, &Boxed<kFunction>::call);
}

}  // namespace anyaccel::ops
