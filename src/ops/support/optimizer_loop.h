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

/// Asks for what the loop reads in some 16 rounds: with four arrays the processor itself looks less far ahead. An address
/// beyond the array does no harm.
template <typename... T>
inline void prefetch(const T*... arrays) {
  (__builtin_prefetch(reinterpret_cast<const char*>(arrays) + 256 * sizeof(T)), ...);
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

}  // namespace
