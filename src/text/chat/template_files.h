// Where a Hugging Face folder keeps its chat template.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace anyaccel::llm::chat {

struct TemplateFiles {
  std::string text;
  std::optional<std::string>
      tool_use;  ///< the one for conversations with tools, when it is another
  std::map<std::string, std::string>
      special_tokens;  ///< "bos_token", ... as far as the folder names them
};

/// Nothing when there is no template. Throws `corrupt` or `io`.
std::optional<TemplateFiles> read_template(const std::filesystem::path& folder);

}  // namespace anyaccel::llm::chat
