// Batches of rows as tensors.
#pragma once

#include <cstdint>
#include <span>

#include "anyaccel/llm/causal_lm.h"
#include "llm/data/rows.h"

namespace anyaccel::llm {

/// Returns the rows with the given indices as a batch on the host, padded on the right. The first
/// token of a sequence does not contribute to the loss.
CausalLMInput make_batch(const ExampleStore& store, const Rows& rows,
                         std::span<const std::size_t> indices);

/// Number of tokens in the rows that contribute to the loss.
std::int64_t learned_tokens(const ExampleStore& store, const Rows& rows,
                            std::span<const std::size_t> indices);

}  // namespace anyaccel::llm
