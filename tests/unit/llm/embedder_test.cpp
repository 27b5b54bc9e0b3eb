#include "anyaccel/llm/embed.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "unit/llm/bert_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

std::string old_name(const std::string& name) {
  std::string out = "bert." + name;
  const std::pair<const char*, const char*> names[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                                       {"LayerNorm.bias", "LayerNorm.beta"}};
  for (const auto& [now, once] : names) {
    const std::size_t place = out.find(now);
    if (place != std::string::npos) out.replace(place, std::string::npos, once);
  }
  return out;
}

// Fails if padding affects results, or rows are not in the order of the texts.
TEST(Embedder, BatchEqualsSingleTexts) {
  const TemporaryFolder folder;
  write_bert(folder);
  const Embedder embedder = Embedder::load(folder.path());
  const std::vector<std::string> texts = {"a", "", "a b c d", "d d", "c", "b a"};
  for (const std::int64_t size : {1, 2, 4, 32}) {
    const at::Tensor all = embedder.embed(texts, {.batch_size = size});
    ASSERT_EQ(all.sizes().vec(), (std::vector<std::int64_t>{6, 12}));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_TRUE(at::allclose(all[static_cast<std::int64_t>(i)], embedder.embed({texts[i]})[0],
                               1e-5, 1e-6))
          << texts[i];
    }
  }
  EXPECT_FALSE(at::allclose(embedder.embed({"a b"}), embedder.embed({"b a"}), 1e-2, 1e-2));
  EXPECT_EQ(embedder.embed({}).sizes().vec(), (std::vector<std::int64_t>{0, 12}));
}

// Fails if tokens beyond the maximum length reach the model, or truncation removes the final [SEP].
TEST(Embedder, LongTextsAreTruncated) {
  const TemporaryFolder folder;
  write_bert(folder);
  EXPECT_EQ(Embedder::load(folder.path()).max_tokens(), 9);
  folder.write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(Embedder::load(folder.path()).max_tokens(), 9);
  folder.write("tokenizer_config.json", R"({"model_max_length": 8})");
  EXPECT_EQ(Embedder::load(folder.path()).max_tokens(), 8);
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 5, "do_lower_case": true})");
  const Embedder embedder = Embedder::load(folder.path());
  EXPECT_EQ(embedder.max_tokens(), 5);
  EXPECT_TRUE(at::equal(embedder.embed({"a b c d d d d d d d d"}), embedder.embed({"a b c"})));
  EXPECT_FALSE(at::equal(embedder.embed({"a b c"}), embedder.embed({"a b"})));
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 10})");
  EXPECT_ERROR(Embedder::load(folder.path()), corrupt,
               "max_seq_length 10 is more than the model's 9 positions");
}

// Fails if a tensor is not found under its name in old checkpoints, which are still in use.
TEST(Embedder, OldNames) {
  const TemporaryFolder now, once;
  write_bert(now);
  write_bert(once, old_name);
  EXPECT_TRUE(at::equal(Embedder::load(now.path()).embed({"a b"}),
                        Embedder::load(once.path()).embed({"a b"})));
}

// Fails if the default prompt, the pooling or the normalization that the files specify is not
// applied.
TEST(Embedder, FilesOfSentenceTransformers) {
  const TemporaryFolder folder;
  write_bert(folder);
  const Embedder plain = Embedder::load(folder.path());
  folder.write("config_sentence_transformers.json",
               R"({"prompts":{"q":"a b "},"default_prompt_name":"q"})");
  EXPECT_TRUE(at::equal(Embedder::load(folder.path()).embed({"c"}), plain.embed({"a b c"})));
  folder.write("config_sentence_transformers.json", R"({"prompts":{},"default_prompt_name":null})");
  folder.write("modules.json",
               R"([{"path":"","type":"x.Transformer"},{"path":"1_Pooling","type":"x.Pooling"},
      {"path":"2_Normalize","type":"x.Normalize"}])");
  folder.write("1_Pooling/config.json",
               R"({"pooling_mode_mean_tokens":true,"pooling_mode_cls_token":true})");
  const Embedder both = Embedder::load(folder.path());
  EXPECT_EQ(both.dimension(), 24);
  const at::Tensor vectors = both.embed({"a b", "c"});
  EXPECT_TRUE(at::allclose(vectors.square().sum(1), at::ones({2})));
  const at::Tensor mean = plain.embed({"a b"})[0];
  EXPECT_TRUE(at::allclose(vectors[0].narrow(0, 12, 12), mean.mul(vectors[0][12].div(mean[0])),
                           1e-4, 1e-5));
}

// Fails if an invalid input is accepted, or the error does not identify the input.
TEST(Embedder, Errors) {
  const TemporaryFolder folder;
  EXPECT_ERROR(Embedder::load(folder / "none"), not_found, "none is not a folder");
  write_bert(folder);
  const Embedder embedder = Embedder::load(folder.path());
  EXPECT_ERROR(embedder.embed({"a"}, {.batch_size = 0}), invalid_argument,
               "batch size is too small; got 0");
  folder.write("tokenizer_config.json", R"({"truncation_side": "left"})");
  EXPECT_ERROR(Embedder::load(folder.path()), unsupported,
               "truncation_side is not supported; got \"left\"");
  folder.write("tokenizer_config.json", R"({"model_max_length": 1})");
  EXPECT_ERROR(Embedder::load(folder.path()).embed({"a"}), invalid_argument,
               "max_tokens is too small for the special tokens around a text");
  folder.write("tokenizer_config.json", "{}");
  std::string config = kBertConfig;
  folder.write("config.json",
               config.replace(config.find("\"vocab_size\":10"), 15, "\"vocab_size\":2000000000"));
  EXPECT_ERROR(Embedder::load(folder.path()), corrupt, "embeddings.word_embeddings.weight");
  std::string tokenizer = kBertTokenizer;
  folder.write("config.json", kBertConfig);
  folder.write("tokenizer.json", tokenizer.replace(tokenizer.find("\"d\":9"), 5, "\"d\":10"));
  EXPECT_ERROR(Embedder::load(folder.path()).embed({"d"}), invalid_argument,
               "outside the model's vocabulary; got 10");
  tokenizer = kBertTokenizer;
  const std::size_t frame = tokenizer.find("\"post_processor\"");
  folder.write("tokenizer.json", tokenizer.erase(frame, tokenizer.find("\"model\"") - frame));
  EXPECT_ERROR(Embedder::load(folder.path()).embed({"a", ""}), invalid_argument,
               "a text has no tokens");
}

}  // namespace
}  // namespace anyaccel::llm
