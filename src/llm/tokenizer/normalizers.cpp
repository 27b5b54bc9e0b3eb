// Normalizers of a few lines each.
#include <algorithm>

#include "base/untrusted_text.h"
#include "llm/tokenizer/factories.h"
#include "llm/tokenizer/pattern.h"
#include "llm/tokenizer/unicode.h"

namespace anyaccel::llm {

namespace {

/// A normalizer that is one function.
template <typename F>
class NormalizerFunction final : public Normalizer {
 public:
  explicit NormalizerFunction(F function) : function_(std::move(function)) {}
  void normalize(NormalizedText& text) const override { function_(text); }

 private:
  F function_;
};

template <typename F>
std::unique_ptr<Normalizer> normalizer_of(F function) {
  return std::make_unique<NormalizerFunction<F>>(std::move(function));
}

std::unique_ptr<Normalizer> form(NormalForm form) {
  return normalizer_of([form](NormalizedText& text) { text.text = normal_form(text.text, form); });
}

void strip_space(NormalizedText& text, bool left, bool right) {
  std::size_t begin = text.text.size(), last = 0, at = 0;
  for_each_character(text.text, [&](char32_t c, std::string_view bytes) {
    if (!is_whitespace(c)) {
      begin = std::min(begin, at);
      last = at + bytes.size();
    }
    at += bytes.size();
  });
  if (right) text.text.resize(last);
  if (!left) return;
  text.cut = text.cut || begin > 0;
  text.text.erase(0, begin);
}

/// Keeps what `change` gives for each character: its bytes, others, or none.
template <typename F>
void change_characters(NormalizedText& text, F&& change) {
  std::string out;
  out.reserve(text.text.size());
  for_each_character(text.text, [&](char32_t c, std::string_view bytes) {
    const std::string_view changed = change(c, bytes);
    text.cut = text.cut || (changed.empty() && out.empty());
    out += changed;
  });
  text.text = std::move(out);
}

std::string_view without_accent(char32_t c, std::string_view bytes) { return is_mark(c) ? std::string_view() : bytes; }

/// The clean-up that SentencePiece's rule nmt_nfkc begins with.
std::string_view nmt(char32_t c, std::string_view bytes) {
  const bool dropped =
      (c >= 0x1 && c <= 0x8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
  const bool space = c == 0x9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  return dropped ? std::string_view() : space ? " " : bytes;
}

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(const TokenizerNode& node) {
    for (const TokenizerNode& child : node.children("normalizers")) steps_.push_back(read_normalizer(child));
  }
  void normalize(NormalizedText& text) const override {
    for (const auto& step : steps_) step->normalize(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const TokenizerNode& node) {
  const std::string type = node.type();
  if (type == "Sequence") return std::make_unique<NormalizerSequence>(node);
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return normalizer_of([](NormalizedText& text) { text.text = lowercase(text.text); });
  if (type == "StripAccents")
    return normalizer_of([](NormalizedText& text) { change_characters(text, without_accent); });
  if (type == "Nmt") return normalizer_of([](NormalizedText& text) { change_characters(text, nmt); });
  if (type == "Strip") {
    return normalizer_of([left = node.flag("strip_left", true), right = node.flag("strip_right", true)](
                             NormalizedText& text) { strip_space(text, left, right); });
  }
  if (type == "Replace") {
    return normalizer_of(
        [pattern = Pattern::read(node), content = node.required_string("content")](NormalizedText& text) {
          const auto stretches = pattern.find(text.text);
          text.cut = text.cut || (content.empty() && !stretches.empty() && stretches[0].match && stretches[0].end > 0);
          text.text = Pattern::replace(text.text, stretches, content);
        });
  }
  if (type == "Prepend") {
    return normalizer_of([prefix = node.required_string("prepend")](NormalizedText& text) {
      if (!text.text.empty()) text.text.insert(0, prefix);
    });
  }
  if (type == "BertNormalizer") return make_bert_normalizer(node);
  if (type == "ByteLevel") return make_byte_level_normalizer();
  if (type == "Precompiled") return make_precompiled(node);
  node.unsupported("normalizer " + quoted_text(type));
}

}  // namespace anyaccel::llm
