// The tokens of a CausalLM's forward pass, without padding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "anyaccel/llm/causal_lm.h"

namespace anyaccel::llm {

/// The real tokens of a batch on the accelerator. Sequences of equal length are the rows of `ids`.
/// Sequences of different lengths are concatenated in a single row, which avoids computing padding
/// and masks.
struct TokenBatch {
  at::Tensor ids;         ///< [rows, time]
  at::Tensor positions;   ///< like `ids`; undefined: 0 to time - 1 in each row
  std::int64_t span = 0;  ///< largest position + 1
  /// Lengths of concatenated sequences. Empty: each row is a sequence.
  std::vector<std::int64_t> lengths;
  at::Tensor targets;  ///< [tokens], label of the next token or -100; undefined without labels
  at::Tensor index;    ///< [tokens], position in the input; undefined: all tokens, in order
  /// Tokens whose target is not -100; undefined if they are most tokens or unknown on the host.
  at::Tensor counted;
};

/// Checks the input and copies it to the accelerator. Throws the errors of CausalLMImpl::forward().
TokenBatch make_batch(const CausalLMInput& input, const ModelConfig& config, c10::Device device);

/// Number of targets that are not -100.
std::int64_t count_labels(const CausalLMInput& input);

}  // namespace anyaccel::llm
