// GPT-2's mapping of bytes to printable characters, as normalizer, pre-tokenizer and decoder.
#include "text/tokenizer/byte_symbols.h"
#include "text/tokenizer/factories.h"
#include "text/tokenizer/pattern.h"

namespace anyaccel::llm {

namespace {

constexpr const char* kGpt2Split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string symbols_of(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (const char c : text) out += byte_symbols()[static_cast<unsigned char>(c)];
  return out;
}

class ByteLevelNormalizer final : public Normalizer {
 public:
  void normalize(NormalizedText& text) const override {
    text.lead = symbols_of(std::string_view(text.text).substr(0, text.lead)).size();
    text.text = symbols_of(text.text);
    text.limit.check(text.text.size());
  }
};

class ByteLevelSplitter final : public PreTokenizer {
 public:
  ByteLevelSplitter(bool add_space, bool use_regex, const std::string& source)
      : add_space_(add_space) {
    if (use_regex) regex_.emplace(Regex(kGpt2Split, source));
  }
  void split(Piece piece, Pieces& out) const override {
    if (add_space_ && !piece.text.starts_with(' ')) {
      piece.text.insert(0, 1, ' ');
      if (piece.lead > 0) ++piece.lead;
    }
    Pieces words(out.limit());
    if (regex_) {
      split_piece(piece, regex_->find(piece.text), SplitBehavior::isolated, words);
    } else {
      words.add(std::move(piece));
    }
    for (const Piece& word : words.all()) {
      const std::string_view lead = std::string_view(word.text).substr(0, word.lead);
      out.add({symbols_of(word.text), symbols_of(lead).size()});
    }
  }

 private:
  bool add_space_;
  std::optional<Pattern> regex_;
};

class ByteLevelDecoder final : public TokenDecoder {
 public:
  void decode(Decoding& text) const override {
    std::string bytes;
    for (const std::string& token : text.parts) bytes += bytes_of_symbols(token).value_or(token);
    text.parts.assign(1, text.raw ? std::move(bytes) : utf8_lossy(bytes));
  }
};

}  // namespace

std::unique_ptr<Normalizer> make_byte_level_normalizer() {
  return std::make_unique<ByteLevelNormalizer>();
}

std::unique_ptr<PreTokenizer> make_byte_level_splitter(const TokenizerNode& node) {
  return std::make_unique<ByteLevelSplitter>(node.flag("add_prefix_space", true),
                                             node.flag("use_regex", true),
                                             node.source() + ", ByteLevel");
}

std::unique_ptr<TokenDecoder> make_byte_level_decoder() {
  return std::make_unique<ByteLevelDecoder>();
}

}  // namespace anyaccel::llm
