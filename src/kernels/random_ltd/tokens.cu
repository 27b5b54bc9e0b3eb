// CUDA kernels that copy tokens, with one block per token. The thread-block code is in tokens.h.
#include "kernels/random_ltd/tokens.h"

#include "kernels/cuda/kernels.h"

namespace anyaccel::ops {
namespace {

struct alignas(16) Wide {
  std::uint64_t words[2];
};

template <typename Unit, typename Id, bool gather>
__global__ void copy_tokens(TokenCopy copy, std::int64_t rows) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    copy_token_block<Unit, Id, gather>(copy, row, threadIdx.x, blockDim.x);
}

template <typename Unit, typename Id>
void launch(const TokenCopy& copy, std::int64_t rows, bool gather, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(rows < 1 << 20 ? rows : 1 << 20);
  if (gather)
    copy_tokens<Unit, Id, true><<<grid, chunk_threads, 0, stream>>>(copy, rows);
  else
    copy_tokens<Unit, Id, false><<<grid, chunk_threads, 0, stream>>>(copy, rows);
}

template <typename Unit>
void launch(const TokenCopy& copy, std::int64_t rows, bool wide, bool gather, cudaStream_t stream) {
  if (wide)
    launch<Unit, std::int64_t>(copy, rows, gather, stream);
  else
    launch<Unit, std::int32_t>(copy, rows, gather, stream);
}

}  // namespace

const char* cuda_copy_tokens(const TokenCopy& copy, std::int64_t rows, bool wide, bool gather,
                             void* stream) {
  if (rows == 0 || copy.bytes == 0) return nullptr;
  auto* const queue = static_cast<cudaStream_t>(stream);
  switch (token_unit(copy)) {
    case 16: launch<Wide>(copy, rows, wide, gather, queue); break;
    case 8: launch<std::uint64_t>(copy, rows, wide, gather, queue); break;
    case 4: launch<std::uint32_t>(copy, rows, wide, gather, queue); break;
    case 2: launch<std::uint16_t>(copy, rows, wide, gather, queue); break;
    default: launch<std::uint8_t>(copy, rows, wide, gather, queue);
  }
  return launch_error();
}

}  // namespace anyaccel::ops
