// A decoder's forward pass over a few rows on a CUDA device: a sequence of kernel launches on one
// stream, in memory that the caller provides. Plain C++ on top of launches.h.
#pragma once

#include "kernels/decoder/cuda/launches.h"
#include "kernels/decoder/decoder.h"

namespace anyaccel::ops {

/// Size of the device memory that a pass needs, in bytes.
std::int64_t cuda_decoder_scratch(const Decoder& decoder);

/// Like run_decoder(), but on a CUDA device and for any number of rows. One group of cuda_rows rows
/// at a time passes through all layers, so a row's results do not depend on other rows. Pointers
/// are device pointers, and `scratch` is aligned to 256 bytes. Returns as soon as the work is
/// queued on the stream, with null on success and the CUDA error message on failure. Neither
/// allocates nor synchronizes, so it can be captured into a graph; a replay uses the positions
/// recorded at capture.
const char* run_cuda_decoder(const Decoder& decoder, float* x, float* logits, void* scratch,
                             Half half, float* change, void* stream);

}  // namespace anyaccel::ops
