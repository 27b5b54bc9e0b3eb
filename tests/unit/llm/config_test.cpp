#include "anyaccel/llm/config.h"

#include <gtest/gtest.h>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

const std::string kSizes =
    R"("model_type":"llama","vocab_size":10,"hidden_size":8,"intermediate_size":16,"num_hidden_layers":1,"num_attention_heads":2)";

ModelConfig read(const TemporaryFolder& folder, const std::string& more) {
  folder.write("config.json", "{" + kSizes + more + "}");
  return ModelConfig::read(folder.path());
}

// Fails if the default for a key that older files omit differs from the default in transformers.
TEST(Config, Defaults) {
  const TemporaryFolder folder;
  const ModelConfig config = read(folder, "");
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.max_positions, 2048);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.rope.type, RopeType::standard);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_TRUE(config.eos_token_ids.empty());
}

// Fails if the old and new formats of the rotary settings are read differently.
TEST(Config, NewAndOldRope) {
  const TemporaryFolder folder;
  const auto now =
      read(folder, R"(,"rope_parameters":{"rope_type":"llama3","rope_theta":5e5,"factor":8,
    "low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":64})");
  const auto old = read(folder, R"(,"rope_theta":5e5,"rope_scaling":{"type":"llama3","factor":8,
    "low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":64})");
  for (const auto& config : {now, old}) {
    EXPECT_EQ(config.rope.type, RopeType::llama3);
    EXPECT_EQ(config.rope.theta, 5e5);
    EXPECT_EQ(config.rope.factor, 8);
    EXPECT_EQ(config.rope.original_max_positions, 64);
  }
  EXPECT_EQ(read(folder, R"(,"rope_scaling":null,"eos_token_id":[1,2])").eos_token_ids.size(), 2U);
}

// Fails if to_json() omits a value that read() needs.
TEST(Config, RoundTrip) {
  const TemporaryFolder folder;
  ModelConfig config = read(
      folder, R"(,"num_key_value_heads":1,"head_dim":6,"tie_word_embeddings":true,"mlp_bias":true,
    "bos_token_id":3,"eos_token_id":4,"rope_parameters":{"rope_type":"dynamic","factor":2,"rope_theta":77})");
  folder.write("config.json", config.to_json());
  const ModelConfig again = ModelConfig::read(folder.path());
  EXPECT_EQ(again.to_json(), config.to_json());
  EXPECT_EQ(again.context_length(), 4096);
}

// Fails if a model of an unsupported type or with an unsupported option is loaded as Llama.
TEST(Config, UnsupportedModelsAreRejected) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read(folder, R"(,"architectures":["MistralForCausalLM"])"), unsupported,
               "MistralForCausalLM");
  EXPECT_ERROR(read(folder, R"(,"hidden_act":"mish")"), unsupported, "mish");
  EXPECT_ERROR(read(folder, R"(,"quantization_config":{"bits":4})"), unsupported, "quantiz");
  EXPECT_ERROR(read(folder, R"(,"rope_scaling":{"rope_type":"spiral","factor":2})"), unsupported,
               "spiral");
  folder.write("config.json", R"({"model_type":"gpt_oss"})");
  EXPECT_ERROR(ModelConfig::read(folder.path()), unsupported, "gpt_oss");
}

// Fails if an invalid value is accepted, or the error does not name the key.
TEST(Config, InvalidValues) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read(folder, R"(,"head_dim":"four")"), corrupt, "head_dim");
  EXPECT_ERROR(read(folder, R"(,"max_position_embeddings":-1)"), corrupt,
               "max_position_embeddings");
  EXPECT_ERROR(read(folder, R"(,"num_key_value_heads":3)"), corrupt, "multiple");
  EXPECT_ERROR(read(folder, R"(,"eos_token_id":10)"), corrupt, "eos_token_id");
  EXPECT_ERROR(read(folder, R"(,"rope_scaling":{"type":"linear"})"), corrupt, "factor");
  EXPECT_ERROR(read(folder, R"(,"rope_scaling":{"type":"dynamic","factor":1e300})"), corrupt,
               "factor");
  EXPECT_ERROR(read(folder, R"(,"rope_theta":0)"), corrupt, "rope_theta");
  EXPECT_ERROR(read(folder, R"(,"initializer_range":-1)"), corrupt, "initializer_range");
  EXPECT_ERROR(read(folder, R"(,"rms_norm_eps":0)"), corrupt, "rms_norm_eps");
  folder.write("config.json", R"({"model_type":"llama","vocab_size":10})");
  EXPECT_ERROR(ModelConfig::read(folder.path()), corrupt, "hidden_size");
}

}  // namespace
}  // namespace anyaccel::llm
