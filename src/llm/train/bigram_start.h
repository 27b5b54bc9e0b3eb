// Initial weights from bigram counts instead of random numbers.
#pragma once

#include <cstdint>
#include <span>

#include "anyaccel/llm/config.h"
#include "llm/model/weights.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

/// Sets a new model's embedding and head so that it predicts each token from the previous one, like
/// a bigram model of `tokens`, as accurately as the width allows. The layers initially add nothing.
/// A short run can then learn longer dependencies.
///
/// Does nothing for models with tied embeddings or fewer than four dimensions, or if LibTorch lacks
/// LAPACK.
void start_from_bigrams(Weights& weights, const ModelConfig& config,
                        std::span<const std::uint16_t> tokens, HostRandom& random);

}  // namespace anyaccel::llm
