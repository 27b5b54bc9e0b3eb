#include "text/tokenizer/read.h"

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "text/tokenizer/text_limit.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

std::size_t count_steps(const SortedJson& steps, const char* key) {
  std::size_t count = 0;
  for (const SortedJson& step : steps) {
    const bool nested = step.is_object() && step.contains(key) && step[key].is_array();
    count += nested ? count_steps(step[key], key) : 1;
  }
  return count;
}

}  // namespace

void TokenizerNode::unsupported(const std::string& construct) const {
  throw Error(ErrorCode::unsupported, "load_tokenizer",
              {.what = source() + ": " + construct + " is not supported",
               .hint = "pass token ids with --prompt-ids"});
}

void TokenizerNode::corrupt(const std::string& what) const {
  throw Error(ErrorCode::corrupt, "load_tokenizer", {.what = source() + ": " + what});
}

std::string TokenizerNode::required_string(const char* key) const {
  if (auto value = string(key)) return *value;
  corrupt("missing " + quoted_text(key));
}

std::string TokenizerNode::character(const char* key) const {
  std::string text = required_string(key);
  if (text.empty() || utf8_front(text).length != text.size()) {
    corrupt(quoted_text(key) + " is not one character");
  }
  return text;
}

TokenizerNode TokenizerNode::child(const char* key) const {
  const SortedJson* value = object(key);
  if (!value) corrupt("missing " + quoted_text(key));
  return {*value, source() + ", " + key};
}

std::vector<TokenizerNode> TokenizerNode::steps(const char* key) const {
  if (const SortedJson* values = array(key)) {
    const std::size_t count = count_steps(*values, key);
    if (count > kMaxSteps) unsupported("a sequence of " + std::to_string(count) + " steps");
  }
  return children(key);
}

std::vector<TokenizerNode> TokenizerNode::children(const char* key) const {
  const SortedJson* values = array(key);
  if (!values) corrupt("missing " + quoted_text(key));
  std::vector<TokenizerNode> out;
  for (const SortedJson& value : *values) {
    const std::string place = source() + ", " + key + "[" + std::to_string(out.size()) + "]";
    if (!value.is_object()) TokenizerNode(value, place).corrupt("this is not an object");
    out.emplace_back(value, place);
  }
  return out;
}

}  // namespace anyaccel::llm
