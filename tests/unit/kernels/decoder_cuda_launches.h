// How decoder_cuda_launches.cpp runs what the CUDA launches of a decoder's pass would do.
#pragma once

namespace op_tests {

/// The threads of a block in the other order; a phase that needs one is wrong on a device.
extern bool launches_backwards;

}  // namespace op_tests
