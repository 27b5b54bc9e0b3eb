// One line of a JSON Lines file with training data.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace anyaccel::llm {

/// A text, or a conversation.
struct Record {
  bool chat = false;
  /// The text, or a JSON object with the variables for ChatTemplate::apply_for_training().
  std::string content;
};

/// Maximum nesting depth of a line.
inline constexpr int kMaxRecordDepth = 64;

/// Parses a line: an object with "text" (a string), or with "messages" (a list of objects with
/// "role"). A conversation may also have "tools", and "chat_template_kwargs" with more variables
/// for the template, as in TRL. Other keys are ignored. Throws `corrupt` with the reason; `place`
/// names the file and the line.
Record parse_record(std::string_view line, const std::string& place);

/// Returns whether a text begins with a record: a line that is a JSON object with "text" or
/// "messages", possibly cut off at the end of `beginning`.
bool begins_with_record(std::string_view beginning);

}  // namespace anyaccel::llm
