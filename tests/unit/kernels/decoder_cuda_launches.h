// Controls how decoder_cuda_launches.cpp runs the CUDA launches of a decoder pass.
#pragma once

namespace op_tests {

/// Whether a block's threads run in reverse order within each phase. Results must not depend on the
/// order.
extern bool launches_backwards;

}  // namespace op_tests
