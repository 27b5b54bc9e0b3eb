// Small normalizers.
#include <algorithm>

#include "base/untrusted_text.h"
#include "text/tokenizer/factories.h"
#include "text/tokenizer/map_characters.h"
#include "text/tokenizer/normal_form.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/unicode.h"

namespace anyaccel::llm {

namespace {

/// A normalizer implemented by a function.
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
  return normalizer_of([form](NormalizedText& text) { apply_normal_form(text, form); });
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
  if (left) text.text.erase(0, begin);
  text.lead = std::min(text.lead - (left ? std::min(begin, text.lead) : 0), text.text.size());
}

void replace(NormalizedText& text, const Pattern& pattern, const std::string& content) {
  const auto stretches = pattern.find(text.text);
  text.lead = lead_of_replaced(stretches, content.size(), text.begins, text.lead);
  text.text = Pattern::replace(text.text, stretches, content, text.limit);
}

void prepend(NormalizedText& text, const std::string& prefix) {
  if (text.text.empty()) return;
  text.limit.check(text.text.size() + prefix.size());
  text.text.insert(0, prefix);
  if (text.lead > 0) text.lead += prefix.size();
}

void strip_accent(char32_t c, std::string_view bytes, std::string& out) {
  if (!is_mark(c)) out += bytes;
}

/// The cleanup step at the beginning of SentencePiece's rule nmt_nfkc.
void clean_nmt(char32_t c, std::string_view bytes, std::string& out) {
  const bool dropped = (c >= 0x1 && c <= 0x8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f ||
                       c == 0x8f || c == 0x9f;
  const bool space = c == 0x9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                     (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xfeff || c == 0xfffd;
  if (!dropped) out += space ? " " : bytes;
}

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(const TokenizerNode& node) {
    for (const TokenizerNode& child : node.steps("normalizers"))
      steps_.push_back(read_normalizer(child));
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
  if (type == "Lowercase") {
    return normalizer_of([](NormalizedText& text) {
      map_characters(
          text, [](char32_t c, std::string_view, std::string& out) { append_lowercase(out, c); });
    });
  }
  if (type == "StripAccents")
    return normalizer_of([](NormalizedText& text) { map_characters(text, strip_accent); });
  if (type == "Nmt")
    return normalizer_of([](NormalizedText& text) { map_characters(text, clean_nmt); });
  if (type == "Strip") {
    return normalizer_of([left = node.flag("strip_left", true),
                          right = node.flag("strip_right", true)](NormalizedText& text) {
      strip_space(text, left, right);
    });
  }
  if (type == "Replace") {
    return normalizer_of([pattern = Pattern::read(node), content = node.required_string("content")](
                             NormalizedText& text) { replace(text, pattern, content); });
  }
  if (type == "Prepend") {
    return normalizer_of([prefix = node.required_string("prepend")](NormalizedText& text) {
      prepend(text, prefix);
    });
  }
  if (type == "BertNormalizer") return make_bert_normalizer(node);
  if (type == "ByteLevel") return make_byte_level_normalizer();
  if (type == "Precompiled") return make_precompiled(node);
  node.unsupported("normalizer " + quoted_text(type));
}

}  // namespace anyaccel::llm
