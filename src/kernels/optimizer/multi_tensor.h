// Kernel launches that process many tensors. The data pointers of several tensors are passed as
// kernel arguments, and each thread block processes one chunk of one tensor. The thread-block code
// is also compiled for the host, where the tests run it. It uses plain pointers and is independent
// of torch and CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simd/element_math.h"

namespace anyaccel::ops {

/// Arguments of a launch. The maximum numbers of tensors and chunks are chosen so that this struct
/// fits in the 4 KiB that a kernel's arguments may occupy.
template <int arrays>
struct Chunks {
  static constexpr int max_tensors = arrays == 4 ? 36 : 48;
  static constexpr int max_chunks = 320;
  void* data[arrays][max_tensors];
  std::int64_t sizes[max_tensors];
  unsigned char tensor[max_chunks];
  std::int32_t chunk[max_chunks];
};

/// Launches kernels on the chunks of `count` tensors.
/// - same(i, j) returns whether tensors i and j may share a launch.
/// - address(i, array) returns the data pointer of an array of tensor i, such as its gradient.
/// - start(chunks, blocks, first) launches a kernel, where `first` is the first tensor of the
///   launch. It returns null on success; an error ends the loop and is returned.
template <int arrays, typename Address, typename Same, typename Start>
const char* launch_chunks(const std::int64_t* sizes, std::size_t count, std::int64_t chunk_size,
                          const Address& address, const Same& same, const Start& start) {
  Chunks<arrays> chunks;
  int tensors = 0;
  int blocks = 0;
  std::size_t first = 0;
  const auto flush = [&]() -> const char* {
    const char* problem = blocks > 0 ? start(chunks, blocks, first) : nullptr;
    tensors = blocks = 0;
    return problem;
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (sizes[i] == 0) continue;
    if (tensors == Chunks<arrays>::max_tensors || (tensors > 0 && !same(first, i)))
      if (const char* problem = flush()) return problem;
    const std::int64_t all = (sizes[i] + chunk_size - 1) / chunk_size;
    for (std::int64_t chunk = 0; chunk < all; ++chunk) {
      if (chunk == 0 || blocks == 0) {  // a new tensor, or a new launch that continues a tensor
        if (tensors == 0) first = i;
        for (int array = 0; array < arrays; ++array)
          chunks.data[array][tensors] = address(i, array);
        chunks.sizes[tensors++] = sizes[i];
      }
      chunks.tensor[blocks] = static_cast<unsigned char>(tensors - 1);
      chunks.chunk[blocks++] = static_cast<std::int32_t>(chunk);
      if (blocks == Chunks<arrays>::max_chunks)
        if (const char* problem = flush()) return problem;
    }
  }
  return flush();
}

template <typename T>
ANYACCEL_ON_BOTH float load_float(const T* from) {
  return static_cast<float>(*from);
}
template <typename T>
ANYACCEL_ON_BOTH void store_float(T* to, float value) {
  *to = static_cast<T>(value);
}

/// Calls function(i, tensor) for those elements of a block that the given thread processes.
template <int arrays, typename Function>
ANYACCEL_ON_BOTH void each_of_block(const Chunks<arrays>& chunks, std::int64_t chunk_size,
                                    unsigned block, unsigned thread, unsigned threads,
                                    const Function& function) {
  const int tensor = chunks.tensor[block];
  const std::int64_t begin = chunks.chunk[block] * chunk_size;
  const std::int64_t stop = begin + chunk_size;
  const std::int64_t end = stop < chunks.sizes[tensor] ? stop : chunks.sizes[tensor];
  for (std::int64_t i = begin + thread; i < end; i += threads) function(i, tensor);
}

/// P, G and S are the types of the parameters, the gradients and both states.
template <typename P, typename G, typename S>
ANYACCEL_ON_BOTH void adam_block(const Chunks<4>& chunks, const AdamConstants& constants,
                                 std::int64_t chunk_size, unsigned block, unsigned thread,
                                 unsigned threads) {
  each_of_block(chunks, chunk_size, block, thread, threads, [&](std::int64_t i, int tensor) {
    P* const p = static_cast<P*>(chunks.data[0][tensor]) + i;
    S* const m = static_cast<S*>(chunks.data[2][tensor]) + i;
    S* const v = static_cast<S*>(chunks.data[3][tensor]) + i;
    const float g = load_float(static_cast<const G*>(chunks.data[1][tensor]) + i);
    const AdamElement out =
        adam_element(constants, {load_float(p), g, load_float(m), load_float(v)});
    store_float(p, out.p);
    store_float(m, out.m);
    store_float(v, out.v);
  });
}

/// P, G and S are the types of the parameters, the gradients and the state.
template <typename P, typename G, typename S>
ANYACCEL_ON_BOTH void lion_block(const Chunks<3>& chunks, const LionConstants& constants,
                                 std::int64_t chunk_size, unsigned block, unsigned thread,
                                 unsigned threads) {
  each_of_block(chunks, chunk_size, block, thread, threads, [&](std::int64_t i, int tensor) {
    P* const p = static_cast<P*>(chunks.data[0][tensor]) + i;
    S* const m = static_cast<S*>(chunks.data[2][tensor]) + i;
    const float g = load_float(static_cast<const G*>(chunks.data[1][tensor]) + i);
    const LionElement out = lion_element(constants, {load_float(p), g, load_float(m)});
    store_float(p, out.p);
    store_float(m, out.m);
  });
}

}  // namespace anyaccel::ops
