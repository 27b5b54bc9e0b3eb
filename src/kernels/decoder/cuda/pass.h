// The pass over few rows on a CUDA device: a sequence of launches on one stream, with memory that
// it is given. Plain C++ over launches.h.
#pragma once

#include "kernels/decoder/cuda/launches.h"
#include "kernels/decoder/decoder.h"

namespace anyaccel::ops {

/// Bytes of device memory that a pass needs.
std::int64_t cuda_decoder_scratch(const Decoder& decoder);

/// As run_decoder(), of any number of rows: cuda_rows of them at a time go through all layers, in
/// their order, so a row's results do not depend on the others. Addresses are the device's;
/// `scratch` is aligned to 256 bytes. Returns when the work is in the stream: null, or what CUDA
/// says. Nothing is allocated and nobody waits, so the stream may be captured: a replay has the
/// positions of the capture.
const char* run_cuda_decoder(const Decoder& decoder, float* x, float* logits, void* scratch,
                             Half half, float* change, void* stream);

}  // namespace anyaccel::ops
