// Loss on held-out text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/data/ngram.h"
#include "llm/model/state.h"

namespace anyaccel::llm {

/// Returns the mean negative log probability, in nats, of the tokens predicted in `windows`. The
/// windows have the same length, which is at most the context plus one. Computes `batch` windows at
/// a time, under autocast to `dtype` unless `dtype` is float32. Does not use random numbers.
double held_out_loss(ModelState& model, std::span<const std::uint16_t> stream,
                     std::span<const Window> windows, std::int64_t batch, c10::ScalarType dtype);

/// Converts windows of tokens to windows of the same text in bytes: the predicted bytes and the
/// byte before them. `lengths`: number of bytes per token.
std::vector<Window> byte_windows(std::span<const std::uint16_t> tokens,
                                 std::span<const Window> windows,
                                 const std::vector<std::uint32_t>& lengths);

/// Returns the windows' tokens as a host int64 tensor [windows, length].
at::Tensor window_tokens(std::span<const std::uint16_t> stream, std::span<const Window> windows);

}  // namespace anyaccel::llm
