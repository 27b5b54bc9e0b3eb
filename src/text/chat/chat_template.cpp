#include "anyaccel/llm/chat.h"

#include "anyaccel/error.h"
#include "text/chat/assistant_parts.h"
#include "text/chat/interpreter.h"
#include "text/chat/parser.h"
#include "text/chat/template_files.h"
#include "text/chat/value_json.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

using Pairs = std::vector<std::pair<std::string, chat::Value>>;

/// Sets a variable, replacing one with the same name.
void put(Pairs& variables, const std::string& name, chat::Value value) {
  for (auto& [key, old] : variables) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

Json read_variables(std::string_view text) {
  Json json = parse_json(text, "the variables");
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array()) {
    throw Error(
        ErrorCode::corrupt, "ChatTemplate",
        {.what = "the variables are not a JSON object with a list of messages",
         .want =
             "an object such as {\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}"});
  }
  return json;
}

}  // namespace

struct ChatTemplate::Data {
  explicit Data(chat::TemplateFiles files) : tool_use(std::move(files.tool_use)) {
    document = chat::parse_template(files.text);
    // transformers always passes these variables.
    variables = {
        {"tools", chat::None{}}, {"documents", chat::None{}}, {"add_generation_prompt", false}};
    for (auto& [name, token] : files.special_tokens)
      variables.emplace_back(name, chat::Value(std::move(token)));
  }

  std::string render(const chat::Block& block, Pairs values,
                     std::vector<TextSpan>* generated = nullptr) const {
    chat::Interpreter interpreter({});
    std::string text = interpreter.render(block, chat::Value::dict(std::move(values)));
    if (generated) {
      for (const auto& [begin, end] : interpreter.generated()) generated->push_back({begin, end});
    }
    return text;
  }

  /// Renders with the variables in a JSON object, which includes "messages".
  std::string render(const Json& json, std::vector<TextSpan>* generated = nullptr) const {
    Pairs values = variables;
    for (const auto& [name, value] : json.items()) put(values, name, chat::value_of(value));
    const bool tools = json.contains("tools") && !json["tools"].is_null();
    if (tools && tool_use)
      return render(chat::parse_template(*tool_use), std::move(values), generated);
    return render(document, std::move(values), generated);
  }

  chat::Block document;
  std::optional<std::string> tool_use;
  Pairs variables;
};

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& folder) {
  auto files = chat::read_template(folder);
  if (!files) return std::nullopt;
  return ChatTemplate(std::make_shared<Data>(std::move(*files)));
}

ChatTemplate ChatTemplate::parse(std::string_view text,
                                 const std::map<std::string, std::string>& special_tokens) {
  chat::TemplateFiles files{.text = utf8_lossy(text), .tool_use = {}, .special_tokens = {}};
  for (const auto& [name, token] : special_tokens)
    files.special_tokens.emplace(name, utf8_lossy(token));
  return ChatTemplate(std::make_shared<Data>(std::move(files)));
}

std::string ChatTemplate::apply(const std::vector<Message>& messages,
                                bool add_generation_prompt) const {
  std::vector<chat::Value> list;
  for (const Message& message : messages) {
    list.push_back(chat::Value::dict({{"role", chat::Value(utf8_lossy(message.role))},
                                      {"content", chat::Value(utf8_lossy(message.content))}}));
  }
  Pairs variables = data_->variables;
  put(variables, "messages", chat::Value::list(std::move(list)));
  put(variables, "add_generation_prompt", add_generation_prompt);
  return data_->render(data_->document, std::move(variables));
}

std::string ChatTemplate::apply_json(std::string_view text) const {
  return data_->render(read_variables(text));
}

TrainingText ChatTemplate::apply_for_training(std::string_view text) const {
  Json json = read_variables(text);
  json["add_generation_prompt"] = false;
  TrainingText out;
  out.text = data_->render(json, &out.assistant);
  std::erase_if(out.assistant, [](const TextSpan& part) { return part.begin == part.end; });
  if (out.assistant.empty())
    out.assistant = chat::assistant_parts(
        json, out.text, [this](const Json& variables) { return data_->render(variables); });
  return out;
}

}  // namespace anyaccel::llm
