// First weights from counts instead of chance.
#pragma once

#include <cstdint>
#include <span>

#include "anyaccel/llm/config.h"
#include "llm/model/weights.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

/// Sets a new model's embedding and head so that it predicts each token from the one before it as a bigram model of `tokens` does,
/// as far as the width allows. The layers begin by adding nothing. Short runs then learn what goes beyond neighbours.
///
/// Does nothing if the model cannot be set so (tied embeddings, fewer than four dimensions) or LibTorch lacks LAPACK.
void start_from_bigrams(Weights& weights, const ModelConfig& config, std::span<const std::uint16_t> tokens,
                        HostRandom& random);

}  // namespace anyaccel::llm
