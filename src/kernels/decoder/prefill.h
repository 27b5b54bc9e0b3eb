// Prefill: a decoder model's forward pass over many new positions, such as a prompt. It uses
// panel-based matrix products and computes attention in blocks of queries. Works on plain arrays;
// independent of torch. Results do not depend on the number of threads. A row's result may differ
// in the last bits from the result of run_decoder().
#pragma once

#include "kernels/decoder/decoder.h"

namespace anyaccel::ops {

/// Maximum number of rows per pass. Longer prompts are split into several passes.
constexpr std::int64_t max_prefill_rows = 512;

/// Like decoder_scratch() and run_decoder(), but for up to max_prefill_rows rows.
std::int64_t prefill_scratch(Isa isa, const Decoder& decoder, std::int64_t threads);
void run_prefill(Isa isa, const Decoder& decoder, float* x, float* logits, void* scratch,
                 std::int64_t threads, Half half = Half::whole, float* change = nullptr);

}  // namespace anyaccel::ops
