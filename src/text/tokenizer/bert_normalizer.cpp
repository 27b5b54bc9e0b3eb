#include "text/tokenizer/factories.h"
#include "text/tokenizer/map_characters.h"
#include "text/tokenizer/normal_form.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

bool is_bert_space(char32_t c) { return c == '\t' || c == '\n' || c == '\r' || is_whitespace(c); }

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const TokenizerNode& node)
      : clean_(node.flag("clean_text", true)),
        chinese_(node.flag("handle_chinese_chars", true)),
        lowercase_(node.flag("lowercase", true)),
        strip_accents_(node.flag("strip_accents", lowercase_)) {}

  void normalize(NormalizedText& text) const override {
    map_characters(text, [&](char32_t c, std::string_view bytes, std::string& out) {
      const bool line = c == '\t' || c == '\n' || c == '\r';
      if (clean_ && (c == 0 || c == 0xfffd || (!line && is_other(c)))) return;
      if (clean_ && is_bert_space(c)) {
        out += ' ';
      } else if (chinese_ && is_cjk(c)) {
        (out += ' ').append(bytes) += ' ';
      } else {
        out += bytes;
      }
    });
    if (strip_accents_) {
      apply_normal_form(text, NormalForm::nfd);
      map_characters(text, [](char32_t c, std::string_view bytes, std::string& out) {
        if (!is_mark_nonspacing(c)) out += bytes;
      });
    }
    if (!lowercase_) return;
    map_characters(
        text, [](char32_t c, std::string_view, std::string& out) { append_lowercase(out, c); });
  }

 private:
  bool clean_, chinese_, lowercase_, strip_accents_;
};

}  // namespace

std::unique_ptr<Normalizer> make_bert_normalizer(const TokenizerNode& node) {
  return std::make_unique<BertNormalizer>(node);
}

}  // namespace anyaccel::llm
