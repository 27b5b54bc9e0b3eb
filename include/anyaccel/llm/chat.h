// Chat templates, which convert a conversation to the prompt format that a model was trained on.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// One message in a conversation.
struct Message {
  std::string role;  ///< "system", "user" or "assistant", depending on the model's template
  std::string content;
};

/// A part of a text, in bytes.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;  ///< end of the part, exclusive
};

/// A rendered conversation for training.
struct TrainingText {
  std::string text;
  /// The parts that the assistant wrote, in order. They do not overlap.
  std::vector<TextSpan> assistant;
};

/// The chat template from a Hugging Face folder. It supports the subset of Jinja2 that
/// docs/reference/tokenizers.md describes, and renders the same text as transformers'
/// apply_chat_template.
///
/// A template can access only its variables and the current time. Rendering has a time limit and a
/// memory limit. Thread-safe after construction.
///
///     const auto chat = ChatTemplate::load(folder);
///     const auto prompt = chat->apply({{"user", "Hello!"}});
///     const auto ids = tokenizer.encode(prompt, /*add_special_tokens=*/false);
class ANYACCEL_API ChatTemplate {
 public:
  /// Read the chat template and the names of the special tokens. The template is read from
  /// chat_template.jinja if it exists, otherwise from tokenizer_config.json. Returns std::nullopt
  /// if the folder has no template. Throws `corrupt` for an invalid template and `unsupported` for
  /// a template outside the supported subset. Both errors name the construct and its line.
  [[nodiscard]] static std::optional<ChatTemplate> load(const std::filesystem::path& folder);
  /// Create a template from its text. `special_tokens`: variables such as {"bos_token", "<s>"}.
  /// Throws the same errors as load().
  static ChatTemplate parse(std::string_view text,
                            const std::map<std::string, std::string>& special_tokens = {});

  /// Render a conversation, followed by the generation prompt (the start of the model's answer)
  /// unless `add_generation_prompt` is false. The text contains the special tokens, so encode it
  /// with `add_special_tokens` false. Invalid UTF-8 is replaced by U+FFFD. Throws
  /// `invalid_argument` if the template rejects the messages, and `unsupported` if rendering
  /// exceeds the time or memory limit.
  std::string apply(const std::vector<Message>& messages, bool add_generation_prompt = true) const;
  /// Render the template with the variables in a JSON object: "messages", with the keys that the
  /// template needs, and optionally other variables, such as "tools", "add_generation_prompt"
  /// (default: false) or "enable_thinking". If "tools" is given, the template named "tool_use" is
  /// used if there is one. Throws the same errors as apply(), and `corrupt` if `variables` is not
  /// such an object.
  std::string apply_json(std::string_view variables) const;
  /// Render a complete conversation like apply_json(), and find the parts that the assistant wrote,
  /// so that a model can be trained to write them.
  ///
  /// The parts are those in {% generation %} blocks, as in transformers'
  /// `return_assistant_tokens_mask`. If the template has no such blocks, the part of an assistant
  /// message is the text that the message adds to the preceding conversation with its generation
  /// prompt. It includes the end of the turn. A template may render a message differently if others
  /// follow, for example without its reasoning. The part is then the text that changes if the
  /// message's content changes.
  ///
  /// Throws the same errors as apply_json(), and `unsupported` if the part of a message cannot be
  /// found.
  TrainingText apply_for_training(std::string_view variables) const;

 private:
  struct Data;
  explicit ChatTemplate(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace anyaccel::llm
