// Copies selected tokens, on host and device. Uses plain pointers; independent of torch and CUDA.
#pragma once

#include <cstdint>

#include "kernels/simd/element_math.h"

namespace anyaccel::ops {

/// Selected tokens of each batch entry. `part` holds the `count` selected tokens, and `whole` holds
/// all `tokens` tokens. Token t of entry b begins at byte b * batch + t * token, where `batch` and
/// `token` are the strides of the respective array, and has `bytes` contiguous bytes.
struct TokenCopy {
  char* whole;
  std::int64_t whole_batch, whole_token;
  char* part;
  std::int64_t part_batch, part_token;
  const void* ids;  ///< [batch][count], int32 or int64
  std::int64_t count, tokens, bytes;
};

/// Pointers to token `row` in both arrays; `row` counts the selected tokens of all batch entries.
/// `whole` is null if the id is out of range.
struct TokenPlaces {
  char* whole;
  char* part;
};

template <typename Id>
ANYACCEL_ON_BOTH TokenPlaces token_places(const TokenCopy& copy, std::int64_t row) {
  const std::int64_t batch = row / copy.count;
  const auto id = static_cast<std::int64_t>(static_cast<const Id*>(copy.ids)[row]);
  char* const part = copy.part + batch * copy.part_batch + (row % copy.count) * copy.part_token;
  if (id < 0 || id >= copy.tokens) return {nullptr, part};
  return {copy.whole + batch * copy.whole_batch + id * copy.whole_token, part};
}

/// Copies one thread's part of a token in units of type Unit. A device cannot report an id that is
/// out of range; for such an id, gather writes zeros and scatter skips the token.
template <typename Unit, typename Id, bool gather>
ANYACCEL_ON_BOTH void copy_token_block(const TokenCopy& copy, std::int64_t row, unsigned thread,
                                       unsigned threads) {
  const TokenPlaces at = token_places<Id>(copy, row);
  if (!at.whole && !gather) return;
  const auto* from = reinterpret_cast<const Unit*>(gather ? at.whole : at.part);
  auto* to = reinterpret_cast<Unit*>(gather ? at.part : at.whole);
  const std::int64_t units = copy.bytes / static_cast<std::int64_t>(sizeof(Unit));
  for (std::int64_t i = thread; i < units; i += threads) to[i] = at.whole ? from[i] : Unit{};
}

/// Returns the largest unit of up to 16 bytes to which all addresses, strides and sizes are
/// aligned.
inline int token_unit(const TokenCopy& copy) {
  const std::uintptr_t all =
      reinterpret_cast<std::uintptr_t>(copy.whole) | reinterpret_cast<std::uintptr_t>(copy.part) |
      static_cast<std::uintptr_t>(copy.whole_batch | copy.whole_token | copy.part_batch |
                                  copy.part_token | copy.bytes);
  int unit = 16;
  while (all % static_cast<std::uintptr_t>(unit)) unit /= 2;
  return unit;
}

/// CUDA kernel. Returns null on success and the CUDA error message on failure. `rows` is the number
/// of selected tokens in all batch entries. `wide` means that ids are int64.
const char* cuda_copy_tokens(const TokenCopy& copy, std::int64_t rows, bool wide, bool gather,
                             void* stream);

}  // namespace anyaccel::ops
