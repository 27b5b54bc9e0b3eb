// The chat template from a Hugging Face model folder.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "anyaccel/export.h"

namespace anyaccel::llm::chat {

struct TemplateFiles {
  std::string text;
  /// Template for conversations with tools, if it is separate.
  std::optional<std::string> tool_use;
  /// Special tokens that the folder defines, such as "bos_token".
  std::map<std::string, std::string> special_tokens;
};

/// Returns nullopt if there is no template. Throws `corrupt` or `io`.
std::optional<TemplateFiles> read_template(const std::filesystem::path& folder);

/// Returns the text of a special token that the tokenizer's files in a folder define, such as
/// "eos_token", or an empty string if they do not define it. Throws `corrupt` or `io`.
ANYACCEL_API std::string special_token(const std::filesystem::path& folder,
                                       const std::string& name);

}  // namespace anyaccel::llm::chat
