// A chat template is read or refused by a typed error; what was read makes a text, or says by one why not, within its limits.
// sources: llm/chat/access.cpp llm/chat/calculate.cpp llm/chat/compare.cpp llm/chat/errors.cpp llm/chat/evaluate.cpp llm/chat/filters.cpp llm/chat/filters_lists.cpp llm/chat/functions.cpp llm/chat/interpreter.cpp llm/chat/letters.cpp llm/chat/lexer.cpp llm/chat/literal.cpp llm/chat/methods.cpp llm/chat/parse_expressions.cpp llm/chat/parse_statements.cpp llm/chat/print.cpp llm/chat/strings.cpp llm/chat/tests.cpp llm/chat/value.cpp llm/chat/value_json.cpp llm/tokenizer/utf8.cpp llm/support/json.cpp base/file.cpp base/error.cpp base/untrusted_text.cpp
// libraries: icuuc
#include "llm/chat/interpreter.h"
#include "llm/chat/parser.h"
#include "llm/chat/value_json.h"
#include "llm/tokenizer/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  using namespace anyaccel::llm;
  static const auto variables = chat::value_of(parse_json(
      R"({"messages":[{"role":"system","content":"be"},{"role":"user","content":"Hi \u00fc\n"},
          {"role":"assistant","content":[{"type":"text","text":"x"}],"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}],
          "add_generation_prompt":true,"tools":null,"bos_token":"<s>","eos_token":"</s>","n":-3,"x":0.5})",
      "variables"));
  try {
    const auto document = chat::parse_template(utf8_lossy({reinterpret_cast<const char*>(data), size}));
    const chat::Limits limits{.steps = 20'000, .bytes = 1 << 20};
    const std::string text = chat::Interpreter(limits).render(document, variables);
    if (text.size() > static_cast<std::size_t>(limits.bytes) || !is_utf8(text)) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::unsupported &&
        error.code() != ErrorCode::invalid_argument)
      std::abort();
    if (!is_utf8(error.what())) std::abort();
  }
  return 0;
}
