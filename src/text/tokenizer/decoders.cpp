// Small decoders.
#include <algorithm>

#include "base/untrusted_text.h"
#include "text/tokenizer/factories.h"
#include "text/tokenizer/pattern.h"

namespace anyaccel::llm {

namespace {

/// A decoder implemented by a function.
template <typename F>
class DecoderFunction final : public TokenDecoder {
 public:
  explicit DecoderFunction(F function) : function_(std::move(function)) {}
  void decode(Decoding& text) const override { function_(text); }

 private:
  F function_;
};

template <typename F>
std::unique_ptr<TokenDecoder> decoder_of(F function) {
  return std::make_unique<DecoderFunction<F>>(std::move(function));
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// Converts runs of byte tokens such as <0xE2> to text. If a run is not valid UTF-8, each of its
/// bytes becomes U+FFFD.
void byte_fallback(Decoding& text) {
  std::vector<std::string> out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (text.raw || is_utf8(run)) {
      out.push_back(run);
    } else {
      out.insert(out.end(), run.size(), "\xef\xbf\xbd");
    }
    run.clear();
  };
  for (std::string& token : text.parts) {
    const bool byte = token.size() == 6 && token.starts_with("<0x") && token[5] == '>' &&
                      hex(token[3]) >= 0 && hex(token[4]) >= 0;
    if (byte) {
      run += static_cast<char>(hex(token[3]) * 16 + hex(token[4]));
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  text.parts = std::move(out);
}

void fuse(Decoding& text) {
  std::string all;
  for (const std::string& token : text.parts) all += token;
  text.parts.assign(1, std::move(all));
  text.fused = true;
}

std::string strip(std::string_view token, std::string_view content, std::size_t start,
                  std::size_t stop) {
  for (; start > 0 && token.starts_with(content); --start) token.remove_prefix(content.size());
  for (; stop > 0 && token.ends_with(content); --stop) token.remove_suffix(content.size());
  return std::string(token);
}

std::unique_ptr<TokenDecoder> strip_step(const TokenizerNode& node) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  const auto start = static_cast<std::size_t>(node.integer("start", 0, kMost).value_or(0));
  const auto stop = static_cast<std::size_t>(node.integer("stop", 0, kMost).value_or(0));
  return decoder_of([content = node.character("content"), start, stop](Decoding& text) {
    // If the parts were joined, they no longer begin and end where the whole text does.
    const bool inside = text.inside && text.fused;
    for (std::string& token : text.parts)
      token = strip(token, content, inside ? 0 : start, inside ? 0 : stop);
  });
}

/// Removes spaces that a word-level decoder inserts before punctuation, as Hugging Face tokenizers
/// does.
std::string clean_up(std::string text) {
  constexpr std::pair<const char*, const char*> kRepairs[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRepairs)
    text = Pattern(std::string(from)).replace(text, to, TextLimit::of(text.size()));
  return text;
}

std::unique_ptr<TokenDecoder> word_piece(const TokenizerNode& node) {
  return decoder_of([prefix = node.string("prefix").value_or("##"),
                     cleanup = node.flag("cleanup", true)](Decoding& text) {
    bool begin = !text.inside;
    for (std::string& token : text.parts) {
      if (!begin) {
        if (token.starts_with(prefix)) {
          token.erase(0, prefix.size());
        } else {
          token.insert(0, 1, ' ');
        }
      }
      begin = false;
      if (cleanup) token = clean_up(std::move(token));
    }
  });
}

std::unique_ptr<TokenDecoder> bpe_decoder(const TokenizerNode& node) {
  return decoder_of([suffix = Pattern(node.string("suffix").value_or("</w>"))](Decoding& text) {
    for (std::size_t i = 0; i < text.parts.size(); ++i) {
      const bool last = i + 1 == text.parts.size() && !text.inside;
      text.parts[i] = suffix.replace(text.parts[i], last ? "" : " ", text.limit);
    }
  });
}

std::unique_ptr<TokenDecoder> sequence(const TokenizerNode& node) {
  auto steps = std::make_shared<std::vector<std::unique_ptr<TokenDecoder>>>();
  for (const TokenizerNode& child : node.steps("decoders")) steps->push_back(read_decoder(child));
  return decoder_of([steps](Decoding& text) {
    for (const auto& step : *steps) step->decode(text);
  });
}

}  // namespace

std::unique_ptr<TokenDecoder> read_decoder(const TokenizerNode& node) {
  const std::string type = node.type();
  if (type == "Sequence") return sequence(node);
  if (type == "ByteLevel") return make_byte_level_decoder();
  if (type == "ByteFallback") return decoder_of(byte_fallback);
  if (type == "Fuse") return decoder_of(fuse);
  if (type == "Strip") return strip_step(node);
  if (type == "Metaspace") return make_metaspace_decoder(node);
  if (type == "WordPiece") return word_piece(node);
  if (type == "BPEDecoder") return bpe_decoder(node);
  if (type == "Replace") {
    return decoder_of(
        [pattern = Pattern::read(node), content = node.required_string("content")](Decoding& text) {
          std::size_t size = 0;
          for (std::string& token : text.parts) {
            token = pattern.replace(token, content, text.limit);
            text.limit.check(size += token.size());
          }
        });
  }
  node.unsupported("decoder " + quoted_text(type));
}

}  // namespace anyaccel::llm
