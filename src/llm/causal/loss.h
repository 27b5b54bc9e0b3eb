// The loss of language models, with and without logits in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "llm/quantize/linear.h"

namespace anyaccel::llm {

/// Label of a token that is excluded from the loss.
inline constexpr std::int64_t ignored_label = -100;

/// Cross-entropy of logits [..., vocab] and targets [tokens], as 0-d float32. Targets of -100 are
/// excluded. `divisor`: divides the sum of the losses; 0: the number of other targets.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double divisor);

/// Like cross_entropy() for the logits of a head [vocab, width] on hidden states [tokens, width],
/// with a soft cap (0: none). Computes logits and gradients for a few hundred tokens at a time, in
/// the forward pass (as in Liger Kernel, arXiv:2410.10989), so that the memory for logits does not
/// grow with the number of tokens. Differentiable once. A quantized head gets no gradient.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& head,
                                const Scales& scales, const at::Tensor& targets, double softcap,
                                double divisor);

}  // namespace anyaccel::llm
