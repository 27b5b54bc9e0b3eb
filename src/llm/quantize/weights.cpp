#include "llm/quantize/weights.h"

#include <ATen/ops/empty.h>

#include <string>

#include "anyaccel/error.h"

namespace anyaccel::llm {

void check_quantization(const LoadOptions& options) {
  if (options.bits != 0 && options.bits != 4 && options.bits != 8) {
    throw Error(ErrorCode::invalid_argument, "Model::load",
                {.what = "weights cannot have so many bits", .got = std::to_string(options.bits), .want = "4 or 8"});
  }
  if (options.group < 0 || options.group % 32 != 0) {
    throw Error(ErrorCode::invalid_argument, "Model::load",
                {.what = "the group of inputs that share a scale is out of range",
                 .got = std::to_string(options.group),
                 .want = "a multiple of 32, for example 128"});
  }
}

void quantize(Weights& weights, const LoadOptions& options) {
  each_matrix(weights, [&](const std::string&, at::Tensor& weight, Scales& scales) {
    const std::int64_t group = group_size(weight.size(1), options.group);
    if (group == 0) return;
    QuantizedMatrix made = quantize(weight, options.bits, group);
    weight = made.weight;  // the floats go with it, unless the embedding is the same tensor
    scales = made.scales;
    weights.quantized = true;
  });
}

}  // namespace anyaccel::llm
