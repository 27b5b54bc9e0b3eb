#include "anyaccel/llm/chat.h"

#include <gtest/gtest.h>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

/// Renders a template with the given variables. `messages` is always set.
std::string render(const std::string& text, const std::string& more = "") {
  const std::string messages =
      R"("messages":[{"role":"user","content":" Hi "},{"role":"assistant","content":"Yo"},{"role":"user","content":"Ü?"}])";
  return ChatTemplate::parse(text, {{"bos_token", "<s>"}})
      .apply_json("{" + messages + (more.empty() ? "" : ",") + more + "}");
}

// Fails if trim_blocks, lstrip_blocks or a minus sign in a tag strip whitespace differently from
// Jinja.
TEST(Chat, Whitespace) {
  EXPECT_EQ(render("a\n  {% if true %}\n b\n  {% endif %}  \nc\n"), "a\n b\n  \nc");
  EXPECT_EQ(render("a \n {%- if true -%} \n b {%+ endif +%}\nc"), "ab \nc");
  EXPECT_EQ(render("  {{ 1 }}\n{{- 2 -}} \n 3{# x #}\n\n{#- y -#} \n4"), "  1234");
  EXPECT_EQ(render("\r\na\rb\r\n"), "\na\nb");
  EXPECT_EQ(render("x {% set y = '}}%}' %}{{ y }} {{ {'a': {'b': 1}}['a']['b'] }}"), "x }}%} 1");
}

// Fails if loop variables, conditions, else branches or scopes differ from Jinja.
TEST(Chat, Loops) {
  EXPECT_EQ(render("{% for m in messages %}{{ loop.index0 }}{{ loop.index }}{{ loop.first }}{{ "
                   "loop.last }}{{ loop.length }}"
                   "{{ loop.previtem.role if loop.previtem is defined }}-{{ "
                   "(loop.nextitem|default({'role': 'end'})).role }} "
                   "{% endfor %}"),
            "01TrueFalse3-assistant 12FalseFalse3user-user 23FalseTrue3assistant-end ");
  EXPECT_EQ(render("{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }} "
                   "{% endfor %}"),
            "1/2 2/2 ");
  EXPECT_EQ(render("{% for x in [] %}{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(
      render("{% set x = 1 %}{% for i in range(3) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}"),
      "2221");
  EXPECT_EQ(render("{% set n = namespace(x=1) %}{% for i in range(3) %}{% set n.x = n.x + 1 %}{% "
                   "endfor %}{{ n.x }}"),
            "4");
  EXPECT_EQ(render("{% for k, v in {'a': 1, 'b': [2]}.items() %}{{ k }}={{ v }};{% endfor %}"),
            "a=1;b=[2];");
  EXPECT_EQ(render("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i > 3 %}{% break "
                   "%}{% endif %}{{ i "
                   "}}{% endfor %}"),
            "023");
  EXPECT_EQ(render("{% for i in [1,2,3] %}{% for j in 'ab' %}{{ j }}{{ loop.index }}{% endfor %}{{ "
                   "loop.revindex }}{% "
                   "endfor %}"),
            "a1b23a1b22a1b21");
}

// Fails if an operator's precedence or result differs from Python.
TEST(Chat, Expressions) {
  EXPECT_EQ(render("{{ 1 + 2 * 3 - 4 // -3 }} {{ -7 % 3 }} {{ -7 // 2 }} {{ 7 / 2 }} {{ 2 ** 10 }} "
                   "{{ 1e20 }} {{ 1.0 }}"),
            "9 2 -4 3.5 1024 1e+20 1.0");
  EXPECT_EQ(
      render(
          "{{ 'a' ~ 1 ~ none ~ true }} {{ 'ab' * 2 }} {{ [1] + [2] }} {{ ('a', 'b') }} {{ (1,) }}"),
      "a1NoneTrue abab [1, 2] ('a', 'b') (1,)");
  EXPECT_EQ(render("{{ not 1 == 2 and 3 in [3] or x }} {{ 1 < 2 < 3 }} {{ 1 < 2 > 2 }} {{ 'b' not "
                   "in 'abc' }}"),
            "True True False False");
  EXPECT_EQ(
      render("{{ 'a' if 0 else 'b' if 0 else 'c' }}{{ 'x' if 0 }}{{ 0 or 'y' }}{{ 1 and 'z' }}"),
      "cyz");
  EXPECT_EQ(render("{{ messages[0]['content'] }}{{ messages[-1].content[0] }}{{ "
                   "messages[1:]|length }}{{ 'abcd'[::-1] }}"
                   "{{ 'abcd'[-3:-1] }}{{ [1,2,3,4][::2] }}{{ messages.1.role }}"),
            " Hi Ü2dcbabc[1, 3]assistant");
  EXPECT_EQ(render(R"({{ "a\n\"\x41\u00fc\U0001F600" 'b' }})"),
            "a\n\"A\xc3\xbc\xf0\x9f\x98\x80"
            "b");
}

// Fails if a filter, test or method differs from Jinja or Python.
TEST(Chat, Filters) {
  EXPECT_EQ(render("{{ ' a '|trim }}|{{ 'xax'|trim('x') }}|{{ 'aB'|upper }}{{ 'aB'|lower }}{{ 'ab "
                   "cd'|title }}{{ "
                   "'ab'|capitalize }}"),
            "a|a|ABabAb CdAb");
  EXPECT_EQ(render("{{ nothing|default('d') }}{{ ''|default('e', true) }}{{ nothing|length }}{{ "
                   "[1, 2]|first }}{{ [1, 2]|last }}"
                   "{{ {'a': 1}|items|list }}{{ [1, 2]|join('-') }}{{ "
                   "messages|map(attribute='role')|join(',') }}"),
            "de012[('a', 1)]1-2user,assistant,user");
  EXPECT_EQ(render("{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ "
                   "messages|rejectattr('role', "
                   "'eq', 'user')|list|length }}"
                   "{{ [1, 2, 3]|select('odd')|list }}{{ '12'|int + 1 }}{{ 'abc'|reverse }}"),
            "21[1, 3]13cba");
  EXPECT_EQ(
      render(
          R"({{ {'a': [1, 2.5, none, true], 'ü': '"\n</'}|tojson }}{{ {'b': [1], 'a': {}}|tojson(indent=2) }}{{ 'ü'|tojson(ensure_ascii=true) }})"),
      "{\"a\": [1, 2.5, null, true], \"ü\": \"\\\"\\n</\"}{\n  \"b\": [\n    1\n  ],\n  \"a\": "
      "{}\n}\"\\u00fc\"");
  EXPECT_EQ(
      render(
          "{{ 'a b  c'.split() }}{{ 'a,b,c'.split(',', 1) }}{{ '</t>x</t>y'.split('</t>')[-1] }}{{ "
          "'xxabx'.lstrip('x') }}"
          "{{ ' a'.strip().startswith('a') }}{{ 'ab'.endswith(('x', 'b')) }}{{ 'aXbX'.replace('X', "
          "'') }}{{ "
          "'ß'.upper() }}"),
      "['a', 'b', 'c']['a', 'b,c']yabxTrueTrueabSS");
  EXPECT_EQ(render("{{ x is defined }}{{ messages is defined }}{{ none is none }}{{ 'a' is string "
                   "}}{{ {} is mapping }}"
                   "{{ [] is iterable }}{{ 1 is iterable }}{{ 3 is odd }}{{ 3 is not even }}{{ 4 "
                   "is divisibleby 2 }}{{ "
                   "[] is sequence }}"),
            "FalseTrueTrueTrueTrueTrueFalseTrueTrueTrueTrue");
}

// Fails if a macro sees names outside its scope, or a set block is printed.
TEST(Chat, MacrosAndBlocks) {
  EXPECT_EQ(render("{% macro f(a, b='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{% set c = 1 %}{{ "
                   "f(1) }}{{ f(b=2, a=3) }}"),
            "[1x1][321]");
  EXPECT_EQ(
      render("{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}"),
      "3210");
  EXPECT_EQ(render("{% set x %} a{{ 1 }} {% endset %}<{{ x }}>{% generation %}g{% endgeneration "
                   "%}{{ bos_token }}"),
            "< a1 >g<s>");
}

// Fails if an unsupported construct is ignored, or the error lacks the construct's line number.
TEST(Chat, UnsupportedConstructs) {
  for (const auto& [text, named] : std::initializer_list<std::pair<const char*, const char*>>{
           {"a\n{% include 'x' %}", "line 2: the tag \"include\""},
           {"\n\n{{ 1|batch(2) }}", "line 3: the filter \"batch\""},
           {"{{ 1 is escaped }}", "the test \"escaped\""},
           {"{{ 'a'.encode() }}", "the method \"encode\""},
           {"{{ [1].append(2) }}", "the method \"append\""},
           {"{{ lipsum() }}", "the function \"lipsum\""},
           {"{{ '%s' % 1 }}", "formatting"},
           {"{{ 9223372036854775807 + 1 }}", "64 bits"},
           {"{% for x in [1] recursive %}{% endfor %}", "recursive"},
           {"{{ f(*a) }}", "a call with *"}}) {
    EXPECT_ERROR(render(text), unsupported, named);
  }
  EXPECT_ERROR(render("{{ 1"), corrupt, "line 1");
  EXPECT_ERROR(render("\n{% if 1 %}"), corrupt, "endif");
  EXPECT_ERROR(render("{{ 1 + }}"), corrupt, "'}}'");
  EXPECT_ERROR(render("{% endfor %}"), corrupt, "endfor");
  EXPECT_ERROR(render("{% break %}"), corrupt, "break");
  EXPECT_ERROR(render("\n{{ raise_exception('No ' ~ 1) }}"), invalid_argument,
               "line 2: the model's template rejects these messages: No 1");
  EXPECT_ERROR(render("{{ x.y }}"), invalid_argument, "\"x\" is undefined");
  EXPECT_ERROR(render("{{ 1 // 0 }}"), invalid_argument, "zero");
  EXPECT_ERROR(render("{{ 'a' + 1 }}"), invalid_argument, "str + int");
  EXPECT_ERROR(render("{{ messages[0]._x }}"), invalid_argument, "unsafe");
}

// Fails if a malicious template can exhaust stack or memory, or run forever.
TEST(Chat, Limits) {
  const auto many = [](const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  EXPECT_ERROR(render("{{ " + many("(", 5000) + "1" + many(")", 5000) + " }}"), corrupt,
               "too deep");
  EXPECT_ERROR(render("{{ 1" + many("+1", 5000) + " }}"), corrupt, "too long");
  EXPECT_ERROR(render("{{ a" + many(".a", 5000) + " }}"), corrupt, "too long");
  EXPECT_ERROR(render(many("{% if 1 %}", 500)), corrupt, "too deep");
  EXPECT_ERROR(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), unsupported, "depth");
  const std::string loops = many("{% for i in range(100000) %}", 5);
  EXPECT_ERROR(render(loops + many("{% endfor %}", 5)), unsupported, "exceeds the limit");
  EXPECT_ERROR(render("{% for i in range(99999) %}" + many("{{ i == i }}", 99) + "{% endfor %}"),
               unsupported, "steps");
  EXPECT_ERROR(render("{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + "
                      "n.x %}{% endfor %}"),
               unsupported, "memory");
  EXPECT_ERROR(render("{{ 'ab' * 9223372036854775807 }}"), unsupported, "memory");
  EXPECT_ERROR(render("{% set n = namespace(x=[]) %}{% for i in range(200) %}{% set n.x = [n.x] "
                      "%}{% endfor %}"),
               unsupported, "nested too deep");
  EXPECT_ERROR(render("{% set n = namespace() %}{% set n.n = n %}"), unsupported, "namespace");
  EXPECT_ERROR(render("{% set n = namespace(x=[1]) %}{% for i in range(90) %}{% set n.x = [n.x, "
                      "n.x] %}{% endfor %}{{ n.x }}"),
               unsupported, "exceeds the limit");
}

// Fails if the template or a special token is not found in one of the places that transformers
// searches.
TEST(Chat, Folder) {
  const TemporaryFolder folder;
  const std::vector<Message> hello{{.role = "user", .content = "a\xff"}};
  EXPECT_FALSE(ChatTemplate::load(folder.path()).has_value());
  folder.write("tokenizer_config.json",
               R"({"bos_token":{"content":"<b>"},"eos_token":"</b>","pad_token":null,
    "chat_template":"{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}{{ add_generation_prompt }}{{ tools }}"})");
  EXPECT_EQ(ChatTemplate::load(folder.path())->apply(hello), "<b>a\xef\xbf\xbd</b>TrueNone");
  EXPECT_EQ(ChatTemplate::load(folder.path())->apply(hello, false),
            "<b>a\xef\xbf\xbd</b>FalseNone");
  folder.write("special_tokens_map.json", R"({"bos_token":"no","unk_token":"<u>"})");
  folder.write("chat_template.jinja", "{{ bos_token }}{{ unk_token }}");
  EXPECT_EQ(ChatTemplate::load(folder.path())->apply(hello), "<b><u>");
  const TemporaryFolder named;
  named.write(
      "tokenizer_config.json",
      R"({"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t{{ tools|length }}"}]})");
  EXPECT_EQ(ChatTemplate::load(named.path())->apply(hello), "d");
  EXPECT_EQ(ChatTemplate::load(named.path())->apply_json(R"({"messages":[],"tools":[{}]})"), "t1");
  named.write("tokenizer_config.json", R"({"chat_template":[{"name":"other","template":"d"}]})");
  EXPECT_ERROR(ChatTemplate::load(named.path()), corrupt, "default");
  named.write("tokenizer_config.json", R"({"chat_template":7})");
  EXPECT_ERROR(ChatTemplate::load(named.path()), corrupt, "chat_template");
  EXPECT_ERROR(ChatTemplate::parse("").apply_json("[]"), corrupt, "messages");
}

/// The assistant's parts of a conversation, separated by "|".
std::string learned(const std::string& text, const std::string& messages) {
  const TrainingText out = ChatTemplate::parse(text, {{"eos_token", "</s>"}})
                               .apply_for_training("{\"messages\":[" + messages + "]}");
  std::string joined;
  for (const TextSpan& part : out.assistant)
    joined += (joined.empty() ? "" : "|") + out.text.substr(part.begin, part.end - part.begin);
  return joined;
}

constexpr const char* kTwoTurns =
    R"({"role":"user","content":"a"},{"role":"assistant","content":"B"},)"
    R"({"role":"user","content":"c"},{"role":"assistant","content":"D"})";

// Fails if the text of a {% generation %} block is not found, or if other text is included.
TEST(Chat, GenerationBlocks) {
  EXPECT_EQ(learned("{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}"
                    "{% generation %}{{ m.content }}!{% endgeneration %}{% else %}{{ m.content }}"
                    "{% endif %}\n{% endfor %}",
                    kTwoTurns),
            "B!|D!");
}

// Fails if, without such blocks, the parts do not begin after the generation prompt or do not
// include the end of the turn.
TEST(Chat, PartsWithoutBlocks) {
  const std::string plain =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_EQ(learned(plain, kTwoTurns), "B</s>\n|D</s>\n");
  EXPECT_EQ(learned(plain, R"({"role":"assistant","content":"B"})"), "B</s>\n");
  EXPECT_EQ(learned(plain, R"({"role":"user","content":"a"})"), "");
  // The blocks are in a macro, so their places are unknown.
  EXPECT_EQ(learned("{% macro say(m) %}{% generation %}{{ m.content }}{% endgeneration %}{% "
                    "endmacro %}{% for m in messages %}<{{ m.role }}>{{ say(m) }}</s>{% endfor %}"
                    "{% if add_generation_prompt %}<assistant>{% endif %}",
                    kTwoTurns),
            "B</s>|D</s>");
}

// Fails if the parts are wrong for a template that changes earlier messages when others follow,
// such as one that keeps only the last reasoning, or that has no generation prompt of its own.
TEST(Chat, PartsThatChange) {
  const std::string last_thinks =
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}"
      "<think></think>{% endif %}{{ m.content }}</s>\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_EQ(learned(last_thinks, kTwoTurns), "B</s>\n|<think></think>D</s>\n");
  const std::string llama2 =
      "{% for m in messages %}{% if m.role == 'user' %}[I] {{ m.content }} [/I]{% else %} {{ "
      "m.content }} {{ eos_token }}{% endif %}{% endfor %}";
  EXPECT_EQ(learned(llama2, kTwoTurns), " B </s>| D </s>");
  // A template that rejects a conversation which ends before the assistant's message.
  const std::string strict =
      "{% if messages|length % 2 == 1 %}{{ raise_exception('odd') }}{% endif %}"
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}";
  EXPECT_EQ(learned(strict, kTwoTurns), "B</s>|D</s>");
  const auto lost = [&] { learned("{{ messages|length }}", kTwoTurns); };
  EXPECT_ERROR(lost(), unsupported, "message 2");
}

}  // namespace
}  // namespace anyaccel::llm
