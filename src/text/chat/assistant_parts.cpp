#include "text/chat/assistant_parts.h"

#include <algorithm>
#include <optional>

#include "anyaccel/error.h"

namespace anyaccel::llm::chat {

namespace {

bool is_assistant(const Json& message) {
  return message.is_object() && message.contains("role") && message["role"] == "assistant";
}

/// Renders the first `count` messages. Returns nullopt if the template rejects them.
std::optional<std::string> beginning(const Json& conversation, std::size_t count, bool prompt,
                                     const Render& render) {
  Json variables = conversation;
  Json& messages = variables["messages"];
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(count), messages.end());
  variables["add_generation_prompt"] = prompt;
  try {
    return render(variables);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    return std::nullopt;
  }
}

/// Returns the part of a text that changes with the content of message `index`, or nullopt if the
/// content is not a text, is empty, or does not appear.
std::optional<TextSpan> changing_part(Json conversation, std::size_t index, const std::string& text,
                                      const Render& render) {
  Json& content = conversation["messages"][index]["content"];
  if (!content.is_string()) return std::nullopt;
  const std::string before = content.get<std::string>();
  const auto first = before.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return std::nullopt;
  const char last = before[before.find_last_not_of(" \t\r\n")];
  // Letters that differ from the content's first and last letters, so that all of it changes.
  const auto other = [](char c) { return std::string(1, c == 'x' ? 'y' : 'x'); };
  content = other(before[first]) + other(last);
  std::string changed;
  try {
    changed = render(conversation);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    return std::nullopt;
  }
  const std::size_t most = std::min(text.size(), changed.size());
  std::size_t same = 0, same_end = 0;
  while (same < most && text[same] == changed[same]) ++same;
  while (same_end < most - same &&
         text[text.size() - 1 - same_end] == changed[changed.size() - 1 - same_end])
    ++same_end;
  const TextSpan part{same, text.size() - same_end};
  return part.begin < part.end ? std::optional(part) : std::nullopt;
}

/// Returns the text that ends the turn of message `index`, from the shortened conversation `after`,
/// which ends with that message.
std::string end_of_turn(const Json& conversation, std::size_t index, const std::string& after,
                        const Render& render) {
  Json shorter = conversation;
  Json& messages = shorter["messages"];
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(index) + 1, messages.end());
  const auto part = changing_part(shorter, index, after, render);
  return part ? after.substr(part->end) : "";
}

[[noreturn]] void not_found(std::size_t index) {
  throw Error(
      ErrorCode::unsupported, "ChatTemplate",
      {.what = "cannot find the assistant's text of message " + std::to_string(index + 1) +
               " in the rendered conversation",
       .hint = "enclose the assistant's text in the chat template with {% generation %} and "
               "{% endgeneration %}"});
}

TextSpan part_of(const Json& conversation, std::size_t index, const std::string& whole,
                 const Render& render) {
  const auto before = beginning(conversation, index, true, render);
  const auto after = beginning(conversation, index + 1, false, render);
  const bool begins = before && whole.starts_with(*before);
  if (begins && after && after->size() > before->size() && whole.starts_with(*after))
    return {before->size(), after->size()};
  auto part = changing_part(conversation, index, whole, render);
  if (!part) not_found(index);
  if (begins && before->size() <= part->begin) part->begin = before->size();
  std::string end = after ? end_of_turn(conversation, index, *after, render) : "";
  // The whitespace after the last message may differ from that after other messages.
  while (!end.empty() && whole.compare(part->end, end.size(), end) != 0) {
    if (std::string_view(" \t\r\n").find(end.back()) == std::string_view::npos)
      end.clear();
    else
      end.pop_back();
  }
  part->end += end.size();
  return *part;
}

}  // namespace

std::vector<TextSpan> assistant_parts(const Json& conversation, const std::string& whole,
                                      const Render& render) {
  std::vector<TextSpan> parts;
  const Json& messages = conversation["messages"];
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!is_assistant(messages[i])) continue;
    TextSpan part = part_of(conversation, i, whole, render);
    // Two assistant messages in a row may share their text, for example if the template joins them.
    if (!parts.empty()) part.begin = std::max(part.begin, parts.back().end);
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

}  // namespace anyaccel::llm::chat
