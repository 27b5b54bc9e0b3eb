// Batches of rows as tensors, and helpers for a training step.
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

/// Returns the seed of the device's random numbers in a step. Seeding each step makes its dropout
/// masks independent of earlier steps, so that a resumed run repeats them.
std::uint64_t step_seed(std::uint64_t seed, std::int64_t step, int rank);

/// Throws `invalid_state` if a step's loss or gradient norm is not finite. The weights are not
/// finite either then, and must not replace a checkpoint.
void check_finite(double loss, double norm, double lr, std::int64_t step);

}  // namespace anyaccel::llm
