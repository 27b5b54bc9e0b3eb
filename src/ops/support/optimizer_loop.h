// What kernels of optimizers share. Included by a kernel inside the namespace of its instruction set.
namespace {

/// The last elements of an array, fewer than a vector, with room for a whole one: they then take the same path as the
/// others and have the same bits at any length.
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

/// Asks for what the loop reads 2 KiB of parameters later: with several arrays the processor itself looks less far ahead. An
/// address beyond the array does no harm.
template <typename P, typename... T>
inline void prefetch(const P* params, const T*... others) {
  constexpr std::size_t ahead = 2048 / sizeof(P);
  __builtin_prefetch(reinterpret_cast<const char*>(params) + ahead * sizeof(P));
  (__builtin_prefetch(reinterpret_cast<const char*>(others) + ahead * sizeof(T)), ...);
}

template <typename P, typename Call>
void with_gradients(Element gradient, Element state, const Call& call) {
  if (gradient == Element::f32)
    return state == Element::f32 ? call.template run<P, float, float>() : call.template run<P, float, P>();
  return state == Element::f32 ? call.template run<P, P, float>() : call.template run<P, P, P>();
}

/// Calls call.run<P, G, S>() with the types of parameters, gradients and state. Gradients and state are float or of the
/// parameters' type; the caller has checked that.
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

/// A step over parameters, gradients and one state. Templates, because not each kernel has such constants and arrays.
template <typename Step, typename Constants, typename Arrays>
struct OneStateCall {
  const Constants& constants;
  const Arrays& arrays;
  std::int64_t begin;
  std::int64_t end;

  template <typename P, typename G, typename S>
  void run() const {
    const Step step(constants);
    P* p = at_index<P>(arrays.params, begin);
    const G* g = at_index<G>(arrays.grads, begin);
    S* s = at_index<S>(arrays.states, begin);
    const std::int64_t n = end - begin;
    std::int64_t i = 0;
    for (; i + Vec::width <= n; i += Vec::width) {
      prefetch(p + i, g + i, s + i);
      step(p + i, g + i, s + i);
    }
    if (i == n) return;
    Tail<P> tail_p(p + i, n - i);
    Tail<G> tail_g(g + i, n - i);
    Tail<S> tail_s(s + i, n - i);
    step(tail_p.data(), tail_g.data(), tail_s.data());
    tail_p.copy_to(p + i);
    tail_s.copy_to(s + i);
  }
};

template <typename Step, typename Constants, typename Arrays>
void one_state_update(const Constants& constants, const Arrays& arrays, std::int64_t begin, std::int64_t end) {
  with_elements(arrays.param, arrays.grad, arrays.state,
                OneStateCall<Step, Constants, Arrays>{constants, arrays, begin, end});
}

}  // namespace
