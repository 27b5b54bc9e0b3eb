// The pass over few rows on a CUDA device: a sequence of launches on one stream, with memory from
// the caller. Plain C++ on top of launches.h.
#pragma once

#include "kernels/decoder/cuda/launches.h"
#include "kernels/decoder/decoder.h"

namespace anyaccel::ops {

/// Device memory of a pass, in bytes.
std::int64_t cuda_decoder_scratch(const Decoder& decoder);

/// Like run_decoder(), but for any number of rows. Groups of cuda_rows rows pass through all layers
/// in order, so a row's results do not depend on the others. Pointers are device pointers;
/// `scratch` is aligned to 256 bytes. Returns when the work is queued on the stream: null, or the
/// CUDA error message. Neither allocates nor synchronizes, so it can be captured; a replay uses the
/// positions of the capture.
const char* run_cuda_decoder(const Decoder& decoder, float* x, float* logits, void* scratch,
                             Half half, float* change, void* stream);

}  // namespace anyaccel::ops
