// A decoder model's pass over many new positions, as a prompt has them: products by panels,
// attention by blocks of queries. Over plain arrays; nothing here knows torch. Results do not
// depend on the number of threads; a row's last bits are not those of the pass over few.
#pragma once

#include "kernels/decoder/decoder.h"

namespace anyaccel::ops {

/// Rows of one pass; of a longer prompt the passes follow each other.
constexpr std::int64_t max_prefill_rows = 512;

/// As decoder_scratch() and run_decoder(), for up to most_prefill_rows.
std::int64_t prefill_scratch(Isa isa, const Decoder& decoder, std::int64_t threads);
void run_prefill(Isa isa, const Decoder& decoder, float* x, float* logits, void* scratch,
                 std::int64_t threads, Half half = Half::whole, float* change = nullptr);

}  // namespace anyaccel::ops
