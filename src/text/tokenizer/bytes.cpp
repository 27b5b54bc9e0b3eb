// Creates the tokenizer.json for the models that we train.
#include "anyaccel/llm/tokenizer.h"
#include "text/byte_vocabulary.h"
#include "text/json.h"
#include "text/tokenizer/byte_symbols.h"
#include "text/tokenizer/text_pieces.h"
#include "text/tokenizer/tokenizer_json.h"

namespace anyaccel::llm {

namespace {

constexpr const char* kEndOfTextName = "<|endoftext|>";

/// Splits text into the same pre-tokens as in training. Bytes are merged only within a pre-token.
Json pre_tokenizer(const Json& level) {
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kTextPieces}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, level}}};
}

}  // namespace

std::string byte_level_json(const Merges& merges) {
  std::vector<std::string> words(byte_symbols().begin(), byte_symbols().end());
  words.emplace_back(kEndOfTextName);
  Json pairs = Json::array();
  for (const auto& [left, right] : merges) {
    pairs.push_back({words.at(left), words.at(right)});
    words.push_back(words.at(left) + words.at(right));
  }
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < words.size(); ++id) vocabulary[words[id]] = id;
  const Json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", false},
                      {"use_regex", false}};
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
                     {"pre_tokenizer", merges.empty() ? level : pre_tokenizer(level)},
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
                       {"merges", pairs}}}};
  return root.dump(1) + "\n";
}

std::string Tokenizer::bytes_json() { return byte_level_json({}); }

std::string Tokenizer::bytes_config_json(std::int64_t context) {
  const Json root = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"bos_token", kEndOfTextName},
                     {"eos_token", kEndOfTextName},
                     {"model_max_length", context},
                     {"clean_up_tokenization_spaces", false}};
  return root.dump(2) + "\n";
}

}  // namespace anyaccel::llm
