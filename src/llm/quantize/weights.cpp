#include "llm/quantize/weights.h"

#include <string>

#include "anyaccel/error.h"
#include "llm/quantize/formats.h"
#include "llm/quantize/stored_weights.h"

namespace anyaccel::llm {

StoredWeights open_stored(const std::filesystem::path& folder, const LoadOptions& options) {
  if (options.bits != 0 && options.bits != 4 && options.bits != 8) {
    throw Error(ErrorCode::invalid_argument, "Model::load",
                {.what = "unsupported number of bits per weight",
                 .got = std::to_string(options.bits),
                 .want = "4 or 8"});
  }
  if (options.group_size < 0 || options.group_size % 32 != 0) {
    throw Error(ErrorCode::invalid_argument, "Model::load",
                {.what = "the group size is out of range",
                 .got = std::to_string(options.group_size),
                 .want = "a multiple of 32, for example 128"});
  }
  StoredWeights stored(folder);
  if (stored.quantized() && options.bits) {
    throw Error(ErrorCode::invalid_argument, "Model::load",
                {.what = "the weights in " + folder.string() + " are already quantized",
                 .got = std::to_string(options.bits) + " bits",
                 .want = "no quantization"});
  }
  return stored;
}

void quantize(Weights& weights, const ModelConfig& config, const LoadOptions& options,
              const ParallelPlan* plan) {
  WeightPieces all(weights, config, plan);
  each_matrix(weights, [&](const std::string&, at::Tensor& weight, Scales& scales) {
    const std::vector<WeightPiece> pieces = all.take(weight);
    const auto form = requested_format(weight, pieces, options);
    if (!form) return;
    QuantizedMatrix made = quantize(weight, form->bits, form->group);
    // Free the floating-point weight at the end of this call, unless the embedding shares the
    // tensor.
    weight = made.weight;
    scales = made.scales;
    weights.quantized = true;
  });
}

}  // namespace anyaccel::llm
