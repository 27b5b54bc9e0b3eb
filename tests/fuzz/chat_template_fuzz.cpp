// A chat template is parsed, or rejected with a typed error. Rendering a parsed template gives a
// text or a typed error, and stays within the limits on steps and size.
// sources: text/chat/access.cpp text/chat/calculate.cpp text/chat/compare.cpp text/chat/errors.cpp
// sources: text/chat/evaluate.cpp text/chat/filters.cpp text/chat/filters_lists.cpp
// sources: text/chat/functions.cpp text/chat/interpreter.cpp text/chat/letters.cpp
// sources: text/chat/lexer.cpp text/chat/literal.cpp text/chat/methods.cpp
// sources: text/chat/parse_expressions.cpp text/chat/parse_statements.cpp text/chat/print.cpp
// sources: text/chat/strings.cpp text/chat/tests.cpp text/chat/value.cpp text/chat/value_json.cpp
// sources: text/tokenizer/utf8.cpp text/json.cpp base/file.cpp base/error.cpp
// sources: base/untrusted_text.cpp
// libraries: icuuc
#include "text/chat/interpreter.h"
#include "text/chat/parser.h"
#include "text/chat/value_json.h"
#include "text/tokenizer/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  using namespace anyaccel::llm;
  static const auto variables = chat::value_of(parse_json(
      R"({"messages":[{"role":"system","content":"be"},{"role":"user","content":"Hi \u00fc\n"},
          {"role":"assistant","content":[{"type":"text","text":"x"}],"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}],
          "add_generation_prompt":true,"tools":null,"bos_token":"<s>","eos_token":"</s>","n":-3,"x":0.5})",
      "variables"));
  try {
    const auto document =
        chat::parse_template(utf8_lossy({reinterpret_cast<const char*>(data), size}));
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
