// sentence-transformers settings that determine how token embeddings are pooled into one embedding
// per text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::llm {

enum class Pooling { cls, max, mean, mean_sqrt_len };

/// The initial values apply to folders without these files.
struct SentenceConfig {
  std::filesystem::path encoder;  ///< folder with config.json, weights and tokenizer
  /// If there are several pooling modes, their results are concatenated in the order of the
  /// enumeration.
  std::vector<Pooling> pooling{Pooling::mean};
  bool normalize = false;
  bool lowercase = false;                  ///< lowercase the text before tokenizing it
  std::string prompt;                      ///< prefix of each text
  std::optional<std::int64_t> max_tokens;  ///< absent if no file sets it
};

/// Reads modules.json and the files that it refers to. Throws `corrupt` naming the file and the
/// key, or `unsupported` naming the module or pooling mode.
SentenceConfig read_sentence_config(const std::filesystem::path& folder);

}  // namespace anyaccel::llm
