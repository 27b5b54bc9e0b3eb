// Conversations as the text that a model was trained to continue.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// One turn of a conversation.
struct Message {
  std::string role;  ///< "system", "user" or "assistant", as the model's template knows them
  std::string content;
};

/// The chat template of a Hugging Face folder: the subset of Jinja2 in
/// docs/reference/tokenizers.md, with the result of transformers' apply_chat_template. A template
/// reads only its variables and the time, and its running time and output are limited. Thread-safe
/// once made.
class ANYACCEL_API ChatTemplate {
 public:
  /// Reads chat_template.jinja, or else what tokenizer_config.json says, and the special tokens'
  /// names. Nothing when the folder has no template. Throws `corrupt` for what is no template and
  /// `unsupported` for what is outside the subset; both name the construct and its line.
  [[nodiscard]] static std::optional<ChatTemplate> load(const std::filesystem::path& folder);
  /// The same from a text. `special_tokens` are variables: {"bos_token", "<s>"}, ...
  static ChatTemplate parse(std::string_view text,
                            const std::map<std::string, std::string>& special_tokens = {});

  /// The text of a conversation, with the beginning of the model's turn unless
  /// `add_generation_prompt` is false. It holds the special tokens, so it is encoded with
  /// `add_special_tokens` false. What is no UTF-8 counts as U+FFFD. Throws `invalid_argument` when
  /// the template refuses these messages, `unsupported` when it takes too much time or memory.
  std::string apply(const std::vector<Message>& messages, bool add_generation_prompt = true) const;
  /// The same of all variables as a JSON object: "messages" with whatever keys the template asks
  /// for, and for example "tools", "add_generation_prompt" (false when it is not there) or
  /// "enable_thinking". The template named "tool_use" is taken where there is one and "tools" are
  /// given. Throws also `corrupt` for what is no such object.
  std::string apply_json(std::string_view variables) const;

 private:
  struct Data;
  explicit ChatTemplate(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace anyaccel::llm
