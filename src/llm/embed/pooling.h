// Pooling of token embeddings into one embedding per text.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "llm/embed/sentence_config.h"

namespace anyaccel::llm {

/// Pools token embeddings [batch, time, hidden] into float32 embeddings [batch, dimension].
/// `counted`: bool [batch, time], false for padding; absent if there is no padding. Every text must
/// have at least one token.
at::Tensor pool(const at::Tensor& tokens, const std::optional<at::Tensor>& counted,
                const std::vector<Pooling>& kinds);

/// Scales rows to length 1. Zero rows are preserved.
at::Tensor normalize_rows(const at::Tensor& rows);

}  // namespace anyaccel::llm
