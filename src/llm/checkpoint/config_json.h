// Reads config.json: model families, their keys and their defaults.
#pragma once

#include <string>

#include "anyaccel/llm/config.h"
#include "text/json.h"

namespace anyaccel::llm {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;  ///< upper bound for sizes in the file

/// Converts the contents of config.json. Errors name `source`.
ModelConfig model_config(const Json& object, const std::string& source);

/// Throws `unsupported`: the file is well-formed, but the value of `key` is not supported.
[[noreturn]] void unsupported_config(const std::string& source, const std::string& key,
                                     const std::string& got, const std::string& want);
[[noreturn]] void corrupt_config(const std::string& what);

/// Values that transformers uses for keys missing from config.json.
struct FamilyDefaults {
  std::int64_t max_positions = 2048;
  std::int64_t num_kv_heads = 0;  ///< 0: same as num_heads
  std::int64_t head_dim = 0;      ///< 0: hidden_size / heads
  double rms_norm_eps = 1e-6;
  bool tied = false;
  double rope_theta = 10000.0;
  /// Value of original_max_position_embeddings; 0: use the value in the rope object.
  std::int64_t original_positions = 0;
  std::int64_t inner_factor = 0;  ///< intermediate_size / hidden_size; 0: required key
  bool partial_rotation = false;  ///< true if partial_rotary_factor may be below 1
  const char* activation = "silu";
  std::int64_t bos_token_id = -1;  ///< ignored if outside the vocabulary
  std::int64_t eos_token_id = -1;
};

/// The family's names for the keys that are common to all families.
struct FamilyKeys {
  const char* hidden = "hidden_size";
  const char* inner = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* positions = "max_position_embeddings";
  const char* norm_eps = "rms_norm_eps";
  const char* activation = "hidden_act";
};

/// A model_type with its defaults, its key names and the function that reads its family-specific
/// keys.
struct Family {
  const char* model_type;
  const char* architecture;  ///< the only supported architecture of this model_type
  FamilyDefaults defaults;
  /// Called after reading the keys that are common to all families.
  void (*read)(const JsonReader& in, const Json& object, ModelConfig& config);
  FamilyKeys keys = {};
};

/// Readers for the families with learned position embeddings.
void read_gpt2(const JsonReader& in, const Json& object, ModelConfig& config);
void read_opt(const JsonReader& in, const Json& object, ModelConfig& config);

/// Reads `rope_parameters`, `rope_scaling` and `rope_theta`. Uses `config.max_positions` and
/// `config.head_dim`, which must be set.
RopeConfig read_rope(const JsonReader& in, const ModelConfig& config,
                     const FamilyDefaults& defaults);

/// Returns the family of a model. Throws `unsupported`, naming the model_type or architecture, if
/// it is unknown.
const Family& find_family(const JsonReader& in, const Json& object);

}  // namespace anyaccel::llm
