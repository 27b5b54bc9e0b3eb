// config.json as it was read.
#pragma once

#include <string>

#include "anyaccel/llm/config.h"
#include "text/json.h"

namespace anyaccel::llm {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;  ///< of any size in the file

/// What ModelConfig::read() makes of the file's content; `source` is named in errors.
ModelConfig model_config(const Json& object, const std::string& source);

/// One of these two ends the reading of a file that is well formed but not ours to run, or makes no
/// sense.
[[noreturn]] void unsupported_config(const std::string& source, const std::string& key,
                                     const std::string& got, const std::string& want);
[[noreturn]] void corrupt_config(const std::string& what);

/// What transformers takes where config.json leaves a value out.
struct FamilyDefaults {
  std::int64_t max_positions = 2048;
  std::int64_t num_kv_heads = 0;  ///< 0: as many as heads
  std::int64_t head_dim = 0;      ///< 0: hidden_size / heads
  double rms_norm_eps = 1e-6;
  bool tied = false;
  double rope_theta = 10000.0;
  std::int64_t original_positions =
      0;  ///< original_max_position_embeddings; 0: what the rotation's object says
  std::int64_t inner_factor = 0;  ///< intermediate size by hidden sizes; 0: the file must have it
  bool partial_rotation = false;  ///< no default: whether partial_rotary_factor may be below 1
  const char* activation = "silu";
  std::int64_t bos_token_id = -1;  ///< if the vocabulary has one
  std::int64_t eos_token_id = -1;
};

/// What a family calls the values that all have.
struct FamilyKeys {
  const char* hidden = "hidden_size";
  const char* inner = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* positions = "max_position_embeddings";
  const char* norm_eps = "rms_norm_eps";
  const char* activation = "hidden_act";
};

/// A model_type and what it alone has.
struct Family {
  const char* model_type;
  const char* architecture;  ///< the only one of its classes that is run
  FamilyDefaults defaults;
  void (*read)(const JsonReader& in, const Json& object,
               ModelConfig& config);  ///< after what all families share
  FamilyKeys keys = {};
};

/// The families with learned positions.
void read_gpt2(const JsonReader& in, const Json& object, ModelConfig& config);
void read_opt(const JsonReader& in, const Json& object, ModelConfig& config);

/// What `rope_parameters`, `rope_scaling` and `rope_theta` say; max_positions and head_dim must be
/// known.
RopeConfig read_rope(const JsonReader& in, const ModelConfig& config,
                     const FamilyDefaults& defaults);

/// Throws `unsupported` naming model_type or architecture when they are none of ours.
const Family& find_family(const JsonReader& in, const Json& object);

}  // namespace anyaccel::llm
