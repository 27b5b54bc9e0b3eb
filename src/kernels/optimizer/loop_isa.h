// The loop over a tensor's elements, shared by all optimizers.
#if defined(ANYACCEL_OPTIMIZER_LOOP_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_OPTIMIZER_LOOP_ISA_H)
#undef ANYACCEL_OPTIMIZER_LOOP_ISA_H
#else
#define ANYACCEL_OPTIMIZER_LOOP_ISA_H
#endif

#include "kernels/simd/element.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

/// The last elements of an array, padded to a whole vector. They are processed like all other
/// elements, so results do not depend on the length of the array.
template <typename T>
class Tail {
 public:
  Tail(const T* from, std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    __builtin_memset(data_, 0, sizeof data_);
    __builtin_memcpy(data_, from, bytes_);
  }
  T* data() { return data_; }
  void copy_to(T* to) const { __builtin_memcpy(to, data_, bytes_); }

 private:
  T data_[Vec::width];
  std::size_t bytes_;
};

/// Prefetches the data that the loop will read after another 2 KiB of parameters. With several
/// arrays, the hardware prefetcher does not look far enough ahead. Addresses past the end are
/// harmless.
template <typename P, typename... T>
inline void prefetch(const P* params, const T*... others) {
  constexpr std::size_t ahead = 2048 / sizeof(P);
  __builtin_prefetch(reinterpret_cast<const char*>(params) + ahead * sizeof(P));
  (__builtin_prefetch(reinterpret_cast<const char*>(others) + ahead * sizeof(T)), ...);
}

template <typename P, typename Call>
void with_gradients(Element gradient, Element state, const Call& call) {
  if (gradient == Element::f32)
    return state == Element::f32 ? call.template run<P, float, float>()
                                 : call.template run<P, float, P>();
  return state == Element::f32 ? call.template run<P, P, float>() : call.template run<P, P, P>();
}

/// Calls call.run<P, G, S>() with the types of parameters, gradients and states. Gradients and
/// states must be float or have the type of the parameters.
template <typename Call>
void with_elements(Element parameter, Element gradient, Element state, const Call& call) {
  if (parameter == Element::f32) return call.template run<float, float, float>();
  if (parameter == Element::bf16) return with_gradients<Bf16>(gradient, state, call);
  with_gradients<Fp16>(gradient, state, call);
}

template <typename T>
T* at_index(void* array, std::int64_t index) {
  return static_cast<T*>(array) + index;
}
template <typename T>
const T* at_index(const void* array, std::int64_t index) {
  return static_cast<const T*>(array) + index;
}

/// A Tail that stores a pointer to its elements, so that they can be written back.
template <typename T>
struct StateTail : Tail<T> {
  StateTail(T* at, std::int64_t count) : Tail<T>(at, count), place(at) {}
  T* place;
};

template <typename Step, typename P, typename G, typename... S>
void step_over_tails(const Step& step, StateTail<P> params, Tail<G> grads, StateTail<S>... states) {
  step(params.data(), grads.data(), states.data()...);
  params.copy_to(params.place);
  (states.copy_to(states.place), ...);
}

/// Applies a step to `n` elements of parameters, gradients and states.
template <typename Step, typename P, typename G, typename... S>
void step_over(const Step& step, std::int64_t n, P* params, const G* grads, S*... states) {
  std::int64_t i = 0;
  for (; i + Vec::width <= n; i += Vec::width) {
    prefetch(params + i, grads + i, states + i...);
    step(params + i, grads + i, states + i...);
  }
  if (i < n)
    step_over_tails(step, StateTail<P>(params + i, n - i), Tail<G>(grads + i, n - i),
                    StateTail<S>(states + i, n - i)...);
}

/// A step on parameters, gradients and one state.
template <typename Step, typename Constants, typename Arrays>
struct OneStateCall {
  const Constants& constants;
  const Arrays& arrays;
  std::int64_t begin;
  std::int64_t end;

  template <typename P, typename G, typename S>
  void run() const {
    step_over(Step(constants), end - begin, at_index<P>(arrays.params, begin),
              at_index<G>(arrays.grads, begin), at_index<S>(arrays.states, begin));
  }
};

template <typename Step, typename Constants, typename Arrays>
void one_state_update(const Constants& constants, const Arrays& arrays, std::int64_t begin,
                      std::int64_t end) {
  with_elements(arrays.param, arrays.grad, arrays.state,
                OneStateCall<Step, Constants, Arrays>{constants, arrays, begin, end});
}

}  // namespace
ANYACCEL_ISA_END
#endif
