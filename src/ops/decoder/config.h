// Unpacks and validates the argument `config` of inference_decode.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "anyaccel/ops/decoder.h"
#include "kernels/decoder/decoder.h"
#include "kernels/decoder/prefill.h"
#include "ops/shared/check.h"

namespace anyaccel::ops {

// The public header and the kernels must declare the same limits and enumerations.
static_assert(max_decode_rows == max_rows && max_decode_prompt_rows == max_prefill_rows &&
              max_decode_head_dim == max_head_dim);
static_assert(static_cast<int>(DecoderConfig::Norm::layer) == static_cast<int>(NormKind::layer));
static_assert(static_cast<int>(DecoderConfig::Activation::relu2) == static_cast<int>(Gate::relu2));
static_assert(static_cast<int>(DecoderConfig::Part::feed_forward) ==
              static_cast<int>(Half::feed_forward));

/// The unpacked configuration. The constructor throws c10::ValueError if a value is out of range.
class Config {
 public:
  explicit Config(at::IntArrayRef words) {
    constexpr std::size_t head = sizeof values / sizeof(std::int64_t),
                          each = sizeof(DecoderLayerConfig) / sizeof(std::int64_t);
    if (words.size() >= head) std::memcpy(static_cast<void*>(&values), words.data(), sizeof values);
    if (words.size() < head || values.version != DecoderConfig::current_version)
      fail_argument(
          "inference_decode", "unsupported config version",
          words.empty() ? "no config"
                        : c10::str("version ", static_cast<std::int32_t>(words[0] & 0xffffffff),
                                   " in ", words.size(), " integers"),
          c10::str("version ", DecoderConfig::current_version, " in at least ", head, " integers"),
          "call pack_decoder_config() or anyaccel.ops.decoder.DecoderConfig.pack() of this "
          "AnyAccel version");
    in_range("num_layers", values.num_layers, 0, many);
    const std::size_t wanted = head + each * static_cast<std::size_t>(values.num_layers);
    if (words.size() != wanted)
      fail_argument("inference_decode", "the length of config does not match num_layers",
                    c10::str(words.size(), " integers"),
                    c10::str(wanted, " for ", values.num_layers, " layers"));
    layers.resize(static_cast<std::size_t>(values.num_layers));
    if (!layers.empty())
      std::memcpy(static_cast<void*>(layers.data()), words.data() + head,
                  layers.size() * sizeof layers[0]);
    check();
  }

  DecoderConfig values;
  std::vector<DecoderLayerConfig> layers;

 private:
  static constexpr std::int64_t many = 1 << 20;

  static void in_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
      fail_argument("inference_decode", std::string(name) + " is out of range",
                    std::to_string(value), std::to_string(low) + " to " + std::to_string(high));
  }

  void check() const {
    in_range("num_heads", values.num_heads, 1, many);
    in_range("num_kv_heads", values.num_kv_heads, 1, values.num_heads);
    in_range("head_dim", values.head_dim, 1, max_head_dim);
    in_range("heads_per_kv_head", values.heads_per_kv_head, 0, many);
    in_range("first_head", values.first_head, 0, std::max(values.heads_per_kv_head - 1, 0));
    in_range("experts_per_token", values.experts_per_token, 0, 1 << 16);
    in_range("norm", static_cast<std::int32_t>(values.norm), 0, 2);
    in_range("activation", static_cast<std::int32_t>(values.activation), 0, 4);
    in_range("part", static_cast<std::int32_t>(values.part), 0, 2);
    for (const std::uint8_t flag :
         {values.gated, values.norms_after, values.final_norm, values.normalize_experts,
          values.sum_attention, values.sum_feed_forward})
      in_range("a flag", flag, 0, 1);
    if (values.part != DecoderConfig::Part::whole && layers.size() != 1)
      fail_argument("inference_decode", "part requires a single layer",
                    std::to_string(layers.size()) + " layers", "1 layer");
  }
};

}  // namespace anyaccel::ops
