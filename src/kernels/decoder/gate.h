// Activation functions of feed-forward layers.
#pragma once

namespace anyaccel::ops {

/// relu2 is the square of relu.
enum class Gate { silu, gelu, gelu_tanh, relu, relu2 };

}  // namespace anyaccel::ops
