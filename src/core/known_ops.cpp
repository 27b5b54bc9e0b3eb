#include "core/known_ops.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

namespace anyaccel {

namespace {

constexpr auto kKnown = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"AsyncIOBuilder", "async_io"},
    {"CCLCommBuilder", "deepspeed_ccl_comm"},
    {"CPUAdagradBuilder", "cpu_adagrad"},
    {"CPUAdamBuilder", "cpu_adam"},
    {"CPULionBuilder", "cpu_lion"},
    {"DecoderInferenceBuilder", "decoder_inference"},
    {"DeepCompileBuilder", "dc"},
    {"EvoformerAttnBuilder", "evoformer_attn"},
    {"FPQuantizerBuilder", "fp_quantizer"},
    {"FlashAttentionBuilder", "flash_attn"},
    {"FusedAdamBuilder", "fused_adam"},
    {"FusedLambBuilder", "fused_lamb"},
    {"FusedLionBuilder", "fused_lion"},
    {"GDSBuilder", "gds"},
    {"InferenceBuilder", "transformer_inference"},
    {"InferenceCoreBuilder", "inference_core_ops"},
    {"InferenceCutlassBuilder", "cutlass_ops"},
    {"NotImplementedBuilder", "deepspeed_not_implemented"},
    {"PackbitsBuilder", "pack_bits"},
    {"PinMemoryBuilder", "pin_memory"},
    {"QuantizerBuilder", "quantizer"},
    {"RaggedOpsBuilder", "ragged_device_ops"},
    {"RaggedUtilsBuilder", "ragged_ops"},
    {"RandomLTDBuilder", "random_ltd"},
    {"ShareMemCommBuilder", "deepspeed_shm_comm"},
    {"SparseAttnBuilder", "sparse_attn"},
    {"SpatialInferenceBuilder", "spatial_inference"},
    {"StochasticTransformerBuilder", "stochastic_transformer"},
    {"TransformerBuilder", "transformer"},
    {"UtilsBuilder", "utils"},
});

/// Returns the edit distance: the number of characters to insert, delete or replace to turn `a`
/// into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto next =
          std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      corner = std::exchange(row[j], next);
    }
  }
  return row.back();
}

}  // namespace

std::string_view known_op_name(std::string_view class_name) noexcept {
  const auto place = std::find_if(kKnown.begin(), kKnown.end(),
                                  [&](const auto& known) { return known.first == class_name; });
  return place == kKnown.end() ? std::string_view() : place->second;
}

std::string nearest_op(std::string_view class_name) {
  std::string_view nearest;
  // Users may omit "Builder" or pass the op's own name.
  std::size_t least = std::max<std::size_t>(2, class_name.size() / 4) + 1;
  for (const auto& [known, name] : kKnown) {
    const auto letters =
        std::min({distance(class_name, known), distance(std::string(class_name) + "Builder", known),
                  distance(class_name, name)});
    if (letters < least) nearest = known, least = letters;
  }
  return std::string(nearest);
}

}  // namespace anyaccel
