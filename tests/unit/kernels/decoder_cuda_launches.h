// Control of how decoder_cuda_launches.cpp runs the CUDA launches of a decoder pass.
#pragma once

namespace op_tests {

/// Run a block's threads in reverse order. A phase that depends on the order would be wrong on a
/// device.
extern bool launches_backwards;

}  // namespace op_tests
