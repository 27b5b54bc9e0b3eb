#include "llm/data/record.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "llm/data/input_file.h"
#include "text/json.h"

namespace anyaccel::llm {

namespace {

constexpr const char* kWant =
    R"({"text": "..."} or {"messages": [{"role": "user", "content": "..."}, ...]})";

[[noreturn]] void reject(const std::string& place, const std::string& what, const std::string& got,
                         const char* want = kWant) {
  throw Error(ErrorCode::corrupt, "load_data",
              {.what = place + ": " + what, .got = got, .want = want});
}

std::string keys_of(const Json& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) {
    keys += (keys.empty() ? "" : ", ") + quoted_text(key, 40);
    if (keys.size() > 160) return "the keys " + keys + ", ...";
  }
  return keys.empty() ? "an empty object" : "the keys " + keys;
}

std::string shown(const Json& value) {
  return printable_text(value.dump(-1, ' ', false, Json::error_handler_t::replace), 200);
}

void check_message(const Json& message, std::size_t index, const std::string& place) {
  const std::string name = "\"messages\"[" + std::to_string(index) + "]";
  if (!message.is_object())
    reject(place, name + " is not an object", shown(message),
           R"({"role": "user", "content": "..."})");
  if (!message.contains("role") || !message["role"].is_string())
    reject(place, name + " has no \"role\"", keys_of(message), "a role, such as \"user\"");
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    if (message.contains("tool_calls")) return;
    reject(place, name + " has no \"content\"", keys_of(message), "a string");
  }
  if (!content->is_string() && !content->is_array())
    reject(place, name + ": \"content\" is not a text", shown(*content), "a string");
}

Record conversation(const Json& json, const std::string& place) {
  const Json& messages = json["messages"];
  if (!messages.is_array() || messages.empty())
    reject(place, "\"messages\" is not a list of messages", shown(messages),
           R"([{"role": "user", "content": "..."}, ...])");
  for (std::size_t i = 0; i < messages.size(); ++i) check_message(messages[i], i, place);
  Json variables = {{"messages", messages}};
  if (json.contains("chat_template_kwargs")) {
    const Json& more = json["chat_template_kwargs"];
    if (!more.is_object())
      reject(place, "\"chat_template_kwargs\" is not an object", shown(more), "an object");
    for (const auto& [key, value] : more.items()) {
      if (key != "messages") variables[key] = value;
    }
  }
  if (json.contains("tools")) variables["tools"] = json["tools"];
  return {.chat = true, .content = variables.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

}  // namespace

Record parse_record(std::string_view line, const std::string& place) {
  const Json json =
      parse_json(line, place, {.max_bytes = InputFile::kMaxLine, .max_depth = kMaxRecordDepth});
  if (!json.is_object()) reject(place, "not a JSON object", shown(json));
  const bool text = json.contains("text"), messages = json.contains("messages");
  if (text && messages) reject(place, R"(both "text" and "messages")", keys_of(json));
  if (messages) return conversation(json, place);
  if (!text) reject(place, R"(neither "text" nor "messages")", keys_of(json));
  if (!json["text"].is_string())
    reject(place, "\"text\" is not a string", shown(json["text"]), "a string");
  return {.chat = false, .content = json["text"].get<std::string>()};
}

bool begins_with_record(std::string_view beginning) {
  constexpr std::string_view kSpace = " \t\r\n";
  beginning.remove_prefix(std::min(beginning.find_first_not_of(kSpace), beginning.size()));
  if (!beginning.starts_with('{')) return false;
  const std::string_view line = beginning.substr(0, beginning.find('\n'));
  if (line.size() < beginning.size()) {
    try {
      parse_record(line, "line");
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  // The line is longer than the beginning. Its first key shows what it is.
  beginning.remove_prefix(1);
  beginning.remove_prefix(std::min(beginning.find_first_not_of(kSpace), beginning.size()));
  return beginning.starts_with('"') && (line.find("\"text\"") != std::string_view::npos ||
                                        line.find("\"messages\"") != std::string_view::npos);
}

}  // namespace anyaccel::llm
