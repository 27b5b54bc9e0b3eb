#include <gtest/gtest.h>

#include "anyaccel/llm/generate.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

SamplingOptions read(const TemporaryFolder& folder, const std::string& text) {
  folder.write("generation_config.json", text);
  return sampling_defaults(folder.path());
}

// Fails if a value in the file is ignored, or a default differs from transformers.
TEST(SamplingDefaults, MatchTransformers) {
  const TemporaryFolder folder;
  EXPECT_EQ(sampling_defaults(folder.path()).temperature, 1.0);
  EXPECT_EQ(sampling_defaults(folder.path()).top_k, 0);
  const auto all =
      read(folder, R"({"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"min_p":0.1,
    "repetition_penalty":1.05})");
  EXPECT_EQ(all.temperature, 0.6);
  EXPECT_EQ(all.top_k, 20);
  EXPECT_EQ(all.top_p, 0.95);
  EXPECT_EQ(all.min_p, 0.1);
  EXPECT_EQ(all.repetition_penalty, 1.05);
  const auto few = read(folder, R"({"do_sample":true,"top_k":null})");
  EXPECT_EQ(few.temperature, 1.0);
  EXPECT_EQ(few.top_k, 50);
  EXPECT_EQ(few.top_p, 1.0);
  EXPECT_EQ(few.repetition_penalty, 1.0);
}

// Fails if a file without do_sample enables sampling, or the repetition penalty in such a file is
// ignored. The penalty also applies to greedy decoding.
TEST(SamplingDefaults, GreedyWithoutDoSample) {
  const TemporaryFolder folder;
  const auto options = read(folder, R"({"temperature":0.6,"repetition_penalty":1.3})");
  EXPECT_EQ(options.temperature, 0.0);
  EXPECT_EQ(options.repetition_penalty, 1.3);
}

// Fails if settings in config.json, where older checkpoints store them, are ignored, or are merged
// with those in generation_config.json. A config.json without such settings must not select greedy
// decoding.
TEST(SamplingDefaults, OlderCheckpoints) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"model_type":"gpt2","eos_token_id":3})");
  EXPECT_EQ(sampling_defaults(folder.path()).temperature, 1.0);
  EXPECT_EQ(sampling_defaults(folder.path()).top_k, 0);
  folder.write("config.json", R"({"do_sample":true,"temperature":0.3,"repetition_penalty":1.3})");
  EXPECT_EQ(sampling_defaults(folder.path()).temperature, 0.3);
  EXPECT_EQ(sampling_defaults(folder.path()).top_k, 50);
  EXPECT_EQ(sampling_defaults(folder.path()).repetition_penalty, 1.3);
  folder.write("config.json", R"({"do_sample":true,"top_p":7})");
  EXPECT_ERROR(sampling_defaults(folder.path()), corrupt, "config.json");
  const auto own = read(folder, R"({"top_k":9})");
  EXPECT_EQ(own.temperature, 0.0);
  EXPECT_EQ(own.top_p, 1.0);
}

// Fails if an invalid value is accepted, or the error does not name the file or the key.
TEST(SamplingDefaults, InvalidValues) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read(folder, R"({"do_sample":1})"), corrupt, "do_sample");
  EXPECT_ERROR(read(folder, R"({"top_k":-1})"), corrupt, "top_k");
  EXPECT_ERROR(read(folder, R"({"top_p":2})"), corrupt, "generation_config.json");
  EXPECT_ERROR(read(folder, R"({"repetition_penalty":0})"), corrupt, "repetition-penalty");
}

// Fails if an unsupported option is silently ignored, or an option that has no effect causes a
// warning.
TEST(SamplingDefaults, UnsupportedOptionsAreReported) {
  const TemporaryFolder folder;
  testing::internal::CaptureStderr();
  read(folder,
       R"({"num_beams":1,"typical_p":1.0,"suppress_tokens":[],"forced_eos_token_id":null})");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  read(folder, R"({"num_beams":4,"no_repeat_ngram_size":3})");
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "ignoring unsupported options: num_beams, no_repeat_ngram_size"),
            std::string::npos);
}

}  // namespace
}  // namespace anyaccel::llm
