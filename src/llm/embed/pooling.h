// From token vectors to a text's vector.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "llm/embed/sentence_config.h"

namespace anyaccel::llm {

/// Vectors [batch, dimension], float32, of token vectors [batch, time, hidden]. `counted`: bool
/// [batch, time], false for padding; nothing when there is none. Every text must have a token.
at::Tensor pool(const at::Tensor& tokens, const std::optional<at::Tensor>& counted,
                const std::vector<Pooling>& kinds);

/// Rows of length 1; a row of zeros stays.
at::Tensor normalize_rows(const at::Tensor& rows);

}  // namespace anyaccel::llm
