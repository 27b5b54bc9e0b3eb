#include "text/chat/template_files.h"

#include <array>

#include "anyaccel/error.h"
#include "base/file.h"
#include "text/json.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm::chat {

namespace {

// Maximum size of a template in bytes. The longest template that we know of is 30 KB long.
constexpr std::size_t kMaxTemplate = std::size_t{4} << 20;
constexpr std::array kTokens{"bos_token", "eos_token", "unk_token", "sep_token",
                             "pad_token", "cls_token", "mask_token"};

[[noreturn]] void corrupt(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::corrupt, "ChatTemplate", {.what = path.string() + ": " + what});
}

/// Adds the file's special tokens that `tokens` does not contain yet. Each is a string, or an
/// object with "content".
void add_tokens(const Json& root, const std::filesystem::path& path,
                std::map<std::string, std::string>& tokens) {
  for (const char* name : kTokens) {
    const auto it = root.find(name);
    if (it == root.end() || it->is_null()) continue;
    const auto content = it->is_object() ? it->find("content") : it;
    if ((it->is_object() && content == it->end()) || !content->is_string())
      corrupt(path, std::string("\"") + name + "\" is not a token");
    tokens.emplace(name, content->get<std::string>());
  }
}

/// Reads "chat_template": one string, or a list of named strings.
void read_field(const Json& root, const std::filesystem::path& path,
                std::map<std::string, std::string>& templates) {
  const auto it = root.find("chat_template");
  if (it == root.end() || it->is_null()) return;
  if (it->is_string()) {
    templates["default"] = it->get<std::string>();
    return;
  }
  if (!it->is_array()) corrupt(path, "\"chat_template\" is neither a string nor a list");
  for (const Json& one : *it) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string() ||
        !one.contains("template") || !one["template"].is_string())
      corrupt(path, "an entry of \"chat_template\" lacks its name or template");
    templates[one["name"].get<std::string>()] = one["template"].get<std::string>();
  }
}

/// Reads the special tokens and, unless `templates` is null, the templates in a folder's JSON
/// files.
void read_configs(const std::filesystem::path& folder, std::map<std::string, std::string>& tokens,
                  std::map<std::string, std::string>* templates) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto path = folder / name;
    if (!std::filesystem::exists(path)) continue;
    const Json root = read_json_object(path);
    add_tokens(root, path, tokens);
    if (templates && std::string_view(name) == "tokenizer_config.json")
      read_field(root, path, *templates);
  }
}

}  // namespace

std::string special_token(const std::filesystem::path& folder, const std::string& name) {
  std::map<std::string, std::string> tokens;
  read_configs(folder, tokens, nullptr);
  return std::move(tokens[name]);
}

std::optional<TemplateFiles> read_template(const std::filesystem::path& folder) {
  std::map<std::string, std::string> templates, tokens;
  const auto config = folder / "tokenizer_config.json";
  read_configs(folder, tokens, &templates);
  const auto own = folder / "chat_template.jinja";
  if (std::filesystem::exists(own)) {
    templates.clear();
    templates["default"] = utf8_lossy(read_file(own, kMaxTemplate));
    const auto tools = folder / "additional_chat_templates" / "tool_use.jinja";
    if (std::filesystem::exists(tools))
      templates["tool_use"] = utf8_lossy(read_file(tools, kMaxTemplate));
  }
  if (templates.empty()) return std::nullopt;
  if (!templates.contains("default"))
    corrupt(config, "\"chat_template\" has no template named \"default\"");
  TemplateFiles out{
      .text = std::move(templates["default"]), .tool_use = {}, .special_tokens = std::move(tokens)};
  if (templates.contains("tool_use")) out.tool_use = std::move(templates["tool_use"]);
  return out;
}

}  // namespace anyaccel::llm::chat
