// LoRA adapters for CausalLM (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models",
// 2021, arXiv:2106.09685), in the file format of PEFT 0.21. Link `anyaccel::llm`.
//
//     auto model = CausalLM::from_pretrained("SmolLM2-135M", {.bits = 4});
//     inject_adapter(model, {.r = 16, .lora_alpha = 32, .target_modules = {"all-linear"}});
//     train(model);
//     save_adapter(model, "adapter");
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/llm/causal_lm.h"

namespace anyaccel::llm {

/// Options of a LoRA adapter, with PEFT's names and defaults.
struct LoraConfig {
  std::int64_t r = 8;         ///< rank; at least 1
  double lora_alpha = 8;      ///< the adapter's output is multiplied by lora_alpha / r
  double lora_dropout = 0.0;  ///< dropout on the adapter's input in training mode, in [0, 1)
  /// Modules to adapt: full names or last parts of names, for example "q_proj". "all-linear": all
  /// linear layers except the head. Empty: q_proj and v_proj, or the matrix that contains them
  /// (c_attn, qkv_proj).
  std::vector<std::string> target_modules = {};
  /// Multiply by lora_alpha / sqrt(r) instead (Kalajdzievski, 2023, arXiv:2312.03732).
  bool use_rslora = false;
  /// Seed for the random values of A. B is 0, so that a new adapter does not change the model.
  std::uint64_t seed = 0;
};

/// Add an adapter to all matching modules, and freeze all other parameters. Returns the names of
/// the adapted modules. They get the parameters `<module>.lora_A.weight` [r, inputs] and
/// `<module>.lora_B.weight` [outputs, r], in float32 if the model is in bfloat16 or float16, as in
/// PEFT. The weights may be quantized.
///
/// Create optimizers afterwards. Throws `invalid_argument` for options out of range and for target
/// modules that do not exist, naming the linear layers that do; `unsupported` for targets that are
/// not linear layers; `invalid_state` if the model already has an adapter.
ANYACCEL_API std::vector<std::string> inject_adapter(CausalLM& model, const LoraConfig& config);

/// Return whether the model has an adapter.
ANYACCEL_API bool has_adapter(const CausalLM& model);
/// Options of the model's adapter. Throws `invalid_state` if it has none.
ANYACCEL_API LoraConfig adapter_config(const CausalLM& model);

/// Write adapter_config.json and adapter_model.safetensors as PEFT does. Existing files are
/// replaced only after the new ones are complete. `base_model`: value of base_model_name_or_path in
/// the file; empty: the folder from which the model was read. Throws `invalid_state` if the model
/// has no adapter, and `io` if writing fails.
ANYACCEL_API void save_adapter(const CausalLM& model, const std::filesystem::path& folder,
                               const std::string& base_model = {});

/// Read an adapter from a folder that save_adapter() or PEFT wrote. If the model has no adapter,
/// adds one as inject_adapter() does; otherwise, overwrites the existing adapter's values.
/// `trainable`: whether the adapter's parameters require gradients.
///
/// Throws `not_found` for missing files, `corrupt`, naming the file and the key or tensor, for
/// invalid content and for shapes that do not fit the model, `unsupported` for PEFT options that
/// change results and are not in LoraConfig (for example use_dora), and `invalid_state` if the
/// model's adapter has different modules or a different rank, or is merged.
ANYACCEL_API void load_adapter(CausalLM& model, const std::filesystem::path& folder,
                               bool trainable = true);

/// Return base_model_name_or_path from the adapter_config.json of a folder; empty if the key is
/// missing or null. Throws `not_found` if the file is missing, `io` if it cannot be read, and
/// `corrupt` if it is invalid.
ANYACCEL_API std::string adapter_base_model(const std::filesystem::path& folder);

/// Add the adapter to the weights, so that forward() and generate() are as fast as without one. A
/// quantized matrix is quantized again in the same format, which rounds the sum. No-op if the
/// adapter is already merged. Throws `invalid_state` if the model has no adapter.
ANYACCEL_API void merge_adapter(CausalLM& model);
/// Undo merge_adapter(). Restores quantized weights exactly, and floating-point weights up to
/// rounding. No-op if the adapter is not merged. Throws `invalid_state` if the
/// model has no adapter.
ANYACCEL_API void unmerge_adapter(CausalLM& model);
/// Return whether the adapter is merged.
ANYACCEL_API bool adapter_merged(const CausalLM& model);
/// Remove the adapter's parameters, merged or not, and make the floating-point weights trainable
/// again. After merge_adapter(), the model can then be saved with save_pretrained().
ANYACCEL_API void remove_adapter(CausalLM& model);

}  // namespace anyaccel::llm
