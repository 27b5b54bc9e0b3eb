#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "anyaccel/llm/config.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

ModelConfig read(const TemporaryFolder& folder, const std::string& type, const std::string& more) {
  folder.write(
      "config.json",
      R"({"model_type":")" + type +
          R"(","vocab_size":10,"hidden_size":8,"intermediate_size":16,"num_hidden_layers":3,)" +
          R"("num_attention_heads":2,"num_key_value_heads":2,"head_dim":4)" + more + "}");
  return ModelConfig::read(folder.path());
}

using Windows = std::vector<std::int64_t>;

// Fails if a family's sliding window applies to different layers than in transformers, or a null
// window selects the family's default.
TEST(Families, Windows) {
  const TemporaryFolder folder;
  EXPECT_EQ(read(folder, "mistral", "").windows, Windows(3, 4096));
  EXPECT_TRUE(read(folder, "mistral", R"(,"sliding_window":null)").windows.empty());
  EXPECT_EQ(read(folder, "qwen2",
                 R"(,"use_sliding_window":true,"sliding_window":5,"max_window_layers":1)")
                .windows,
            (Windows{0, 5, 5}));
  EXPECT_EQ(read(folder, "qwen3",
                 R"(,"use_sliding_window":true,"sliding_window":5,)"
                 R"("layer_types":["sliding_attention","full_attention","full_attention"])")
                .windows,
            (Windows{5, 0, 0}));
  for (const std::int64_t positions :
       read(folder, "qwen2", R"(,"sliding_window":5,"max_window_layers":1)").windows) {
    EXPECT_EQ(positions, 0);
  }
  EXPECT_THAT(read(folder, "llama", R"(,"sliding_window":5)").windows, testing::IsEmpty());
}

// Fails if an unsupported layer type, or a list of layer types with the wrong length, is accepted.
TEST(Families, LayerTypes) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read(folder, "qwen3",
                    R"(,"layer_types":["full_attention","linear_attention","full_attention"])"),
               unsupported, "linear_attention");
  EXPECT_ERROR(read(folder, "qwen3", R"(,"layer_types":["full_attention"])"), corrupt,
               "layer_types");
}

// Fails if longrope does not require one positive factor for each rotated pair.
TEST(Families, LongRope) {
  const TemporaryFolder folder;
  const std::string rope =
      R"(,"original_max_position_embeddings":64,"rope_scaling":{"type":"longrope",)";
  const auto good = read(folder, "phi3", rope + R"("short_factor":[1,2],"long_factor":[3,4]})");
  EXPECT_EQ(good.rope.long_factor, (std::vector<double>{3, 4}));
  EXPECT_NEAR(good.rope.attention_factor, std::sqrt(1 + std::log(4096.0 / 64) / std::log(64.0)),
              1e-12);
  EXPECT_ERROR(read(folder, "phi3", rope + R"("short_factor":[1,2],"long_factor":[3]})"), corrupt,
               "long_factor");
  EXPECT_ERROR(read(folder, "phi3", rope + R"("short_factor":[1,0],"long_factor":[3,4]})"), corrupt,
               "short_factor");
  EXPECT_ERROR(read(folder, "llama", R"(,"partial_rotary_factor":0.5)"), unsupported,
               "partial_rotary_factor");
}

// Fails if the original context length of Phi-3 differs from the one in transformers, where the
// default overrides the value in `rope_scaling`.
TEST(Families, OriginalContextOfPhi3) {
  const TemporaryFolder folder;
  const std::string factors = R"("short_factor":[1,2],"long_factor":[3,4]})";
  const std::string positions =
      R"(,"max_position_embeddings":131072,"rope_scaling":{"type":"longrope",)";
  EXPECT_EQ(read(folder, "phi3", positions + factors).rope.original_max_positions, 4096);
  EXPECT_EQ(
      read(folder, "phi3", positions + R"("original_max_position_embeddings":8192,)" + factors)
          .rope.original_max_positions,
      4096);
  EXPECT_EQ(
      read(folder, "llama", positions + R"("original_max_position_embeddings":8192,)" + factors)
          .rope.original_max_positions,
      8192);
}

// Fails if end-of-text ids that are only in generation_config.json are ignored or not validated.
TEST(Families, GenerationConfig) {
  const TemporaryFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id":[3,4]})");
  EXPECT_EQ(read(folder, "llama", R"(,"eos_token_id":2)").eos_token_ids, (Windows{3, 4}));
  folder.write("generation_config.json", "{}");
  EXPECT_EQ(read(folder, "llama", R"(,"eos_token_id":2)").eos_token_ids, (Windows{2}));
  folder.write("generation_config.json", R"({"eos_token_id":10})");
  EXPECT_ERROR(read(folder, "llama", ""), corrupt, "generation_config.json");
}

// Fails if a checkpoint without end-of-text ids does not get the defaults of its class in
// transformers. A null value or an id outside the vocabulary disables the default.
TEST(Families, DefaultEndOfTextIds) {
  const TemporaryFolder folder;
  const std::string sizes = R"(,"ffn_dim":16,"word_embed_proj_dim":8)";
  EXPECT_EQ(read(folder, "opt", sizes).eos_token_ids, (Windows{2}));
  EXPECT_EQ(read(folder, "opt", sizes).bos_token_id, 2);
  EXPECT_THAT(read(folder, "opt", sizes + R"(,"eos_token_id":null)").eos_token_ids,
              testing::IsEmpty());
  EXPECT_EQ(read(folder, "opt", sizes + R"(,"bos_token_id":null)").bos_token_id, -1);
  EXPECT_EQ(read(folder, "opt", sizes + R"(,"eos_token_id":3)").eos_token_ids, (Windows{3}));
  EXPECT_THAT(read(folder, "gpt2", R"(,"n_embd":8,"n_layer":1,"n_head":2)").eos_token_ids,
              testing::IsEmpty());
}

// Fails if a checkpoint cannot be loaded because of an activation key that its family does not use.
// A Gemma 2 checkpoint may have both activation keys.
TEST(Families, ActivationKeys) {
  const TemporaryFolder folder;
  const std::string gelu = R"(,"hidden_act":"gelu_pytorch_tanh")";
  EXPECT_EQ(read(folder, "gemma2", gelu + R"(,"hidden_activation":"gelu_pytorch_tanh")").activation,
            Activation::gelu_tanh);
  EXPECT_EQ(read(folder, "gemma3_text", gelu).activation, Activation::gelu_tanh);
  EXPECT_EQ(read(folder, "llama", R"(,"hidden_activation":"gelu")").activation, Activation::silu);
  EXPECT_EQ(read(folder, "gpt2",
                 R"(,"n_embd":8,"n_layer":1,"n_head":2,"activation_function":"gelu_fast")")
                .activation,
            Activation::gelu_tanh);
}

// Fails if the name of an activation in transformers selects the wrong activation, or the
// activation is lost when a model is saved. Also fails if an unsupported activation is accepted.
TEST(Families, ActivationNames) {
  const TemporaryFolder folder;
  const std::pair<const char*, Activation> names[] = {
      {"silu", Activation::silu},          {"swish", Activation::silu},
      {"gelu", Activation::gelu},          {"gelu_python", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"relu", Activation::relu},          {"gelu_fast", Activation::gelu_tanh},
      {"relu2", Activation::relu2},        {"gelu_accurate", Activation::gelu_tanh}};
  for (const auto& [name, activation] : names) {
    const std::string key = std::string(R"(":")") + name + '"';
    for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "phi3", "mixtral"}) {
      EXPECT_EQ(read(folder, family, R"(,"hidden_act)" + key).activation, activation)
          << family << " " << name;
    }
    EXPECT_EQ(read(folder, "gemma2", R"(,"hidden_activation)" + key).activation, activation)
        << name;
    EXPECT_EQ(read(folder, "opt", R"(,"ffn_dim":16,"activation_function)" + key).activation,
              activation)
        << name;
    folder.write("config.json", read(folder, "llama", R"(,"hidden_act)" + key).to_json());
    EXPECT_EQ(ModelConfig::read(folder.path()).activation, activation) << name;
  }
  for (const char* other :
       {"quick_gelu", "gelu_10", "relu6", "leaky_relu", "tanh", "xielu", "GELU"}) {
    EXPECT_ERROR(read(folder, "llama", std::string(R"(,"hidden_act":")") + other + '"'),
                 unsupported, other);
  }
}

// Fails if experts are in different layers than in transformers, or the number of experts per token
// may exceed the number of experts.
TEST(Families, Experts) {
  const TemporaryFolder folder;
  const std::string four = R"(,"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":6)";
  EXPECT_EQ(read(folder, "qwen3_moe", four + R"(,"decoder_sparse_step":2)").expert_layers,
            (std::vector<bool>{false, true, false}));
  EXPECT_EQ(read(folder, "qwen3_moe", four + R"(,"mlp_only_layers":[0,7])").expert_layers,
            (std::vector<bool>{false, true, true}));
  EXPECT_EQ(read(folder, "mixtral", R"(,"num_local_experts":3)").expert_layers,
            (std::vector<bool>{true, true, true}));
  EXPECT_ERROR(read(folder, "mixtral", R"(,"num_local_experts":2,"num_experts_per_tok":3)"),
               corrupt, "experts");
}

// Fails if a missing or null value of a Gemma configuration is read differently than in
// transformers.
TEST(Families, Gemma) {
  const TemporaryFolder folder;
  const auto two = read(folder, "gemma2", R"(,"final_logit_softcapping":null)");
  EXPECT_EQ(two.attention_softcap, 50.0);
  EXPECT_EQ(two.logit_softcap, 0.0);
  EXPECT_EQ(two.windows, (Windows{4096, 0, 4096}));
  const auto three =
      read(folder, "gemma3_text", R"(,"sliding_window_pattern":3,"rope_local_base_freq":500)");
  EXPECT_EQ(three.windows, (Windows{4096, 4096, 0}));
  EXPECT_EQ(three.window_rope_theta, 500.0);
  EXPECT_EQ(three.rope.theta, 1e6);
  EXPECT_ERROR(read(folder, "gemma2", R"(,"hidden_activation":"relu6")"), unsupported, "relu6");
  EXPECT_ERROR(read(folder, "gemma2", R"(,"attn_logit_softcapping":0)"), corrupt,
               "attn_logit_softcapping");
}

// Fails if keys that only GPT-2 has are ignored, or their defaults differ from transformers.
TEST(Families, Gpt2) {
  const TemporaryFolder folder;
  const auto gpt2 = [&](const std::string& more) {
    folder.write(
        "config.json",
        R"({"model_type":"gpt2","vocab_size":10,"n_embd":12,"n_layer":2,"n_head":4)" + more + "}");
    return ModelConfig::read(folder.path());
  };
  const ModelConfig plain = gpt2(R"(,"n_inner":null)");
  EXPECT_EQ(plain.intermediate_size, 48);
  EXPECT_EQ(plain.head_dim, 3);  // odd, which is allowed because GPT-2 uses no rotation
  EXPECT_EQ(plain.num_kv_heads, 4);
  EXPECT_EQ(plain.max_positions, 1024);
  EXPECT_TRUE(plain.tie_word_embeddings);
  EXPECT_EQ(plain.activation, Activation::gelu_tanh);
  EXPECT_EQ(gpt2(R"(,"n_inner":7,"n_positions":9)").intermediate_size, 7);
  EXPECT_EQ(plain.parameter_count(),
            (10 + 1024 + 2) * 12 + 2 * (4 * 12 * 12 + 48 + 2 * 12 * 48 + 60 + 2 * 2 * 12));
  EXPECT_ERROR(gpt2(R"(,"activation_function":"quick_gelu")"), unsupported, "quick_gelu");
  EXPECT_ERROR(gpt2(R"(,"add_cross_attention":true)"), unsupported, "add_cross_attention");
  EXPECT_ERROR(gpt2(R"(,"n_positions":0)"), corrupt, "n_positions");
  folder.write("config.json",
               R"({"model_type":"gpt2","vocab_size":10,"n_embd":10,"n_layer":2,"n_head":4})");
  EXPECT_ERROR(ModelConfig::read(folder.path()), corrupt, "4 heads");
}

// Fails if an option of OPT is ignored. OPT-350M has post-norm layers and narrow embeddings;
// Galactica has no biases.
TEST(Families, Opt) {
  const TemporaryFolder folder;
  const auto plain = read(folder, "opt", R"(,"ffn_dim":12)");
  EXPECT_EQ(plain.intermediate_size, 12);
  EXPECT_EQ(plain.position_offset, 2);
  EXPECT_TRUE(plain.norms_before && plain.final_norm && plain.mlp_bias &&
              plain.tie_word_embeddings);
  EXPECT_EQ(plain.activation, Activation::relu);
  const auto small =
      read(folder, "opt", R"(,"ffn_dim":12,"do_layer_norm_before":false,"word_embed_proj_dim":6)");
  EXPECT_FALSE(small.norms_before || small.final_norm);
  EXPECT_EQ(small.embedding_width(), 6);
  const auto bare = read(
      folder, "opt", R"(,"ffn_dim":12,"enable_bias":false,"layer_norm_elementwise_affine":false)");
  EXPECT_FALSE(bare.qkv_bias || bare.output_bias || bare.mlp_bias || bare.norm_weights);
  EXPECT_ERROR(read(folder, "opt", ""), corrupt, "ffn_dim");
}

// Fails if a model of another family is saved as Llama.
TEST(Families, OnlyLlamaCanBeSaved) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read(folder, "qwen2", "").to_json(), unsupported, "qwen2");
}

}  // namespace
}  // namespace anyaccel::llm
