#include "llm/embed/sentence_config.h"

#include <gtest/gtest.h>

#include "llm/embed/bert_config.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

constexpr const char* kModules =
    R"([{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},
    {"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])";

// Fails if a folder without sentence-transformers files is interpreted differently than by
// sentence-transformers.
TEST(SentenceConfig, PlainFolder) {
  const TemporaryFolder folder;
  const SentenceConfig config = read_sentence_config(folder.path());
  EXPECT_EQ(config.pooling, std::vector{Pooling::mean});
  EXPECT_FALSE(config.normalize);
  EXPECT_EQ(config.encoder, folder.path());
}

// Fails if the encoder's folder, or the pooling in the old or new notation, is not read correctly.
TEST(SentenceConfig, Modules) {
  const TemporaryFolder folder;
  folder.write(
      "modules.json",
      R"([{"path":"0_Transformer","type":"a.b.Transformer"},{"path":"1_Pooling","type":"Pooling"},
      {"path":"2_Normalize","type":"a.Normalize"}])");
  folder.write("0_Transformer/sentence_bert_config.json",
               R"({"max_seq_length": 77, "do_lower_case": true})");
  folder.write("1_Pooling/config.json",
               R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})");
  const SentenceConfig config = read_sentence_config(folder.path());
  EXPECT_EQ(config.encoder, folder / "0_Transformer");
  EXPECT_EQ(config.max_tokens, 77);
  EXPECT_TRUE(config.lowercase);
  EXPECT_TRUE(config.normalize);
  EXPECT_EQ(config.pooling, std::vector{Pooling::cls});
  const auto pooling = [&](const char* text) {
    folder.write("1_Pooling/config.json", text);
    return read_sentence_config(folder.path()).pooling;
  };
  EXPECT_EQ(pooling(R"({"pooling_mode":"max"})"), std::vector{Pooling::max});
  EXPECT_EQ(pooling(R"({"pooling_mode":["mean","cls"]})"),
            (std::vector{Pooling::cls, Pooling::mean}));
  EXPECT_EQ(pooling(R"({"pooling_mode_mean_sqrt_len_tokens":true,"pooling_mode_max_tokens":true})"),
            (std::vector{Pooling::max, Pooling::mean_sqrt_len}));
  EXPECT_ERROR(pooling(R"({"pooling_mode_lasttoken":true})"), unsupported,
               "this pooling is not supported; got \"lasttoken\"");
  EXPECT_ERROR(pooling(R"({"pooling_mode":"attention"})"), unsupported, "got \"attention\"");
  EXPECT_ERROR(pooling("{}"), unsupported, "got \"none\"");
  EXPECT_ERROR(pooling("["), corrupt, "1_Pooling/config.json");
}

// Fails if an unsupported module is silently ignored, or a path may lead outside the folder.
TEST(SentenceConfig, InvalidModules) {
  const TemporaryFolder folder;
  folder.write("1_Pooling/config.json", R"({"pooling_mode":"max"})");
  const auto read = [&](const char* text) {
    folder.write("modules.json", text);
    return read_sentence_config(folder.path());
  };
  EXPECT_ERROR(
      read(
          R"([{"path":"","type":"x.Transformer"},{"path":"1_Pooling","type":"x.Pooling"},{"path":"2_Dense","type":"x.Dense"}])"),
      unsupported, "this module is not supported; got \"Dense\" at position 2");
  EXPECT_ERROR(read(R"([{"path":"","type":"x.Transformer"}])"), unsupported,
               "want Transformer and Pooling");
  EXPECT_ERROR(read(R"([{"path":"","type":"x.CLIPModel"}])"), unsupported, "CLIPModel");
  EXPECT_ERROR(read("{}"), corrupt, "is not a list of modules");
  EXPECT_ERROR(read("[1]"), corrupt, "a module is not an object");
  for (const char* path : {"../x", "/etc", ".."}) {
    const std::string text = R"([{"path":")" + std::string(path) + R"(","type":"x.Transformer"}])";
    EXPECT_ERROR(read(text.c_str()), corrupt, path);
  }
  folder.write("modules.json", kModules);
  std::filesystem::remove(folder / "1_Pooling/config.json");
  EXPECT_ERROR(read_sentence_config(folder.path()), not_found, "1_Pooling/config.json");
}

// Fails if a default prompt is ignored, or a pooling configuration that excludes the prompt is
// accepted. Excluding the prompt is unsupported.
TEST(SentenceConfig, Prompt) {
  const TemporaryFolder folder;
  folder.write("modules.json", kModules);
  folder.write("1_Pooling/config.json", R"({"pooling_mode":"max","include_prompt":false})");
  EXPECT_EQ(read_sentence_config(folder.path()).prompt, "");
  folder.write("config_sentence_transformers.json",
               R"({"prompts":{"query":"find: "},"default_prompt_name":"query"})");
  EXPECT_ERROR(read_sentence_config(folder.path()), unsupported, "include_prompt");
  folder.write("1_Pooling/config.json", R"({"pooling_mode":"max"})");
  EXPECT_EQ(read_sentence_config(folder.path()).prompt, "find: ");
  folder.write("config_sentence_transformers.json",
               R"({"prompts":{},"default_prompt_name":"query"})");
  EXPECT_ERROR(read_sentence_config(folder.path()), corrupt, "\"query\"");
}

// Fails if the config.json of another model is accepted, or the default of a key differs from
// transformers.
TEST(BertConfig, Keys) {
  const TemporaryFolder folder;
  const auto read = [&](const char* text) {
    folder.write("config.json", text);
    return read_bert_config(folder.path());
  };
  const BertConfig config = read(R"({"model_type":"bert"})");
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.activation, Activation::gelu);
  EXPECT_EQ(read(R"({"model_type":"bert","hidden_act":"gelu_new"})").activation,
            Activation::gelu_tanh);
  EXPECT_EQ(read(R"({"model_type":"bert","hidden_act":"relu2"})").activation, Activation::relu2);
  EXPECT_ERROR(read(R"({"model_type":"llama"})"), unsupported,
               "this model_type is not supported; got \"llama\"");
  EXPECT_ERROR(read("{}"), unsupported, "(none)");
  EXPECT_ERROR(read(R"({"model_type":"bert","hidden_act":"mish"})"), unsupported, "mish");
  EXPECT_ERROR(read(R"({"model_type":"bert","position_embedding_type":"relative_key"})"),
               unsupported, "relative_key");
  EXPECT_ERROR(read(R"({"model_type":"bert","is_decoder":true})"), unsupported, "is_decoder");
  EXPECT_ERROR(read(R"({"model_type":"bert","hidden_size":100})"), corrupt,
               "not a multiple of num_attention_heads 12");
  EXPECT_ERROR(read(R"({"model_type":"bert","hidden_size":0})"), corrupt, "hidden_size");
}

}  // namespace
}  // namespace anyaccel::llm
