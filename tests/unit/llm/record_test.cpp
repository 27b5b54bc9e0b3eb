#include "llm/data/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/error.h"

namespace anyaccel::llm {
namespace {

using testing::HasSubstr;

std::string rejection(const std::string& line) {
  try {
    parse_record(line, "file.jsonl:7");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    return error.what();
  }
  return "accepted";
}

// Fails if a text or a conversation is read wrongly, or if keys that the template needs are lost.
TEST(Record, Kinds) {
  const Record text = parse_record(R"({"text": "a\nb", "id": 3})", "x");
  EXPECT_FALSE(text.chat);
  EXPECT_EQ(text.content, "a\nb");
  const Record chat = parse_record(
      R"({"messages":[{"role":"user","content":"Hi"}],"tools":[1],"chat_template_kwargs":{"a":2,"messages":3},"id":4})",
      "x");
  EXPECT_TRUE(chat.chat);
  EXPECT_EQ(chat.content, R"({"messages":[{"role":"user","content":"Hi"}],"a":2,"tools":[1]})");
  EXPECT_TRUE(
      parse_record(
          R"({"messages":[{"role":"assistant","tool_calls":[]},{"role":"tool","content":[{"type":"text"}]}]})",
          "x")
          .chat);
}

// Fails if a malformed line is accepted, or if the error lacks the place, the value or what was
// expected.
TEST(Record, Malformed) {
  for (const auto& [line, text] : std::vector<std::pair<std::string, std::string>>{
           {"{", "not valid JSON"},
           {"[1]", "not a JSON object"},
           {R"({"text": 3})", "\"text\" is not a string; got 3"},
           {R"({"prompt": "a", "answer": "b"})", R"(the keys "prompt", "answer")"},
           {R"({"text": "a", "messages": []})", R"(both "text" and "messages")"},
           {R"({"messages": []})", "not a list of messages; got []"},
           {R"({"messages": [3]})", R"("messages"[0] is not an object; got 3)"},
           {R"({"messages": [{"role": "user", "content": "a"}, {"from": "b"}]})",
            R"("messages"[1] has no "role")"},
           {R"({"messages": [{"role": "user"}]})", R"(has no "content")"},
           {R"({"messages": [{"role": "user", "content": 5}]})", "is not a text; got 5"},
           {R"({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": 1})",
            "chat_template_kwargs"},
           {R"({"text": "a", "text": "b"})", "twice"}}) {
    const std::string message = rejection(line);
    EXPECT_THAT(message, HasSubstr("file.jsonl:7"));
    EXPECT_THAT(message, HasSubstr(text));
  }
}

// Fails if nesting is not limited, or if a message contains control characters or a whole line.
TEST(Record, Hostile) {
  const std::string deep(2 * kMaxRecordDepth, '[');
  EXPECT_THAT(rejection("{\"text\": " + deep), HasSubstr("nested too deeply"));
  const std::string shown =
      rejection("{\"text\": [\"\\u001b[2J" + std::string(100000, 'x') + "\"]}");
  EXPECT_EQ(shown.find('\x1b'), std::string::npos);
  EXPECT_LT(shown.size(), 800U);
}

// Fails if a text file that begins with a brace is read as JSON Lines, or vice versa.
TEST(Record, Detection) {
  EXPECT_TRUE(begins_with_record("\n {\"text\": \"a\"}\n"));
  EXPECT_TRUE(begins_with_record("{\"messages\": [{\"role\": \"user\", \"content\": \"cut o"));
  EXPECT_FALSE(begins_with_record("{ int main() }\n"));
  EXPECT_FALSE(begins_with_record("{\"a\": 1}\n{\"text\": \"b\"}\n"));
  EXPECT_FALSE(begins_with_record("text"));
  EXPECT_FALSE(begins_with_record(""));
}

}  // namespace
}  // namespace anyaccel::llm
