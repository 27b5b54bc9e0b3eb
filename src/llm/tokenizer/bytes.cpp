// The tokenizer of models that are trained here.
#include "anyaccel/llm/tokenizer.h"
#include "llm/data/corpus.h"
#include "llm/support/json.h"
#include "llm/tokenizer/byte_symbols.h"

namespace anyaccel::llm {

namespace {

constexpr const char* kEndOfTextName = "<|endoftext|>";

}  // namespace

std::string Tokenizer::bytes_json() {
  Json vocabulary = Json::object();
  for (std::size_t byte = 0; byte < 256; ++byte) vocabulary[byte_symbols()[byte]] = byte;
  vocabulary[kEndOfTextName] = kEndOfText;
  const Json level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens",
                      {{{"id", kEndOfText},
                        {"content", kEndOfTextName},
                        {"single_word", false},
                        {"lstrip", false},
                        {"rstrip", false},
                        {"normalized", false},
                        {"special", true}}}},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", level},
                     {"post_processor", nullptr},
                     {"decoder", level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", vocabulary},
                       {"merges", Json::array()}}}};
  return root.dump(1) + "\n";
}

std::string Tokenizer::bytes_config_json(std::int64_t context) {
  const Json root = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"bos_token", kEndOfTextName},
                     {"eos_token", kEndOfTextName},
                     {"model_max_length", context},
                     {"clean_up_tokenization_spaces", false}};
  return root.dump(2) + "\n";
}

}  // namespace anyaccel::llm
