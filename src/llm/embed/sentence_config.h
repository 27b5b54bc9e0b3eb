// What sentence-transformers' files say of how a model's token vectors become a text's vector.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::llm {

enum class Pooling { cls, max, mean, mean_sqrt_len };

/// The values are what counts for a folder without such files.
struct SentenceConfig {
  std::filesystem::path encoder;  ///< folder of config.json, weights and tokenizer
  std::vector<Pooling> pooling{
      Pooling::mean};  ///< several are put one after the other, in the enumeration's order
  bool normalize = false;
  bool lowercase = false;                  ///< the text, before the tokenizer sees it
  std::string prompt;                      ///< stands before each text
  std::optional<std::int64_t> max_tokens;  ///< as the files say
};

/// Reads modules.json and the files that it leads to. Throws `corrupt` naming file and key, or
/// `unsupported` naming the module or pooling.
SentenceConfig read_sentence_config(const std::filesystem::path& folder);

}  // namespace anyaccel::llm
