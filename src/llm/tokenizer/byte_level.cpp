// GPT-2's bytes as characters: as normalizer, pre-tokenizer and decoder.
#include "llm/tokenizer/byte_symbols.h"
#include "llm/tokenizer/factories.h"
#include "llm/tokenizer/pattern.h"

namespace anyaccel::llm {

namespace {

constexpr const char* kGpt2Split = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string symbols_of(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (const char c : text) out += byte_symbols()[static_cast<unsigned char>(c)];
  return out;
}

class ByteLevelNormalizer final : public Normalizer {
 public:
  void normalize(NormalizedText& text) const override { text.text = symbols_of(text.text); }
};

class ByteLevelSplitter final : public PreTokenizer {
 public:
  ByteLevelSplitter(bool add_space, bool use_regex, const std::string& source) : add_space_(add_space) {
    if (use_regex) regex_.emplace(Regex(kGpt2Split, source));
  }
  void split(Piece piece, std::vector<Piece>& out) const override {
    if (add_space_ && !piece.text.starts_with(' ')) piece.text.insert(0, 1, ' ');
    const std::size_t before = out.size();
    if (regex_) {
      split_piece(piece, regex_->find(piece.text), SplitBehavior::isolated, out);
    } else {
      out.push_back(std::move(piece));
    }
    for (std::size_t i = before; i < out.size(); ++i) out[i].text = symbols_of(out[i].text);
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

std::unique_ptr<Normalizer> make_byte_level_normalizer() { return std::make_unique<ByteLevelNormalizer>(); }

std::unique_ptr<PreTokenizer> make_byte_level_splitter(const TokenizerNode& node) {
  return std::make_unique<ByteLevelSplitter>(node.flag("add_prefix_space", true), node.flag("use_regex", true),
                                             node.source() + ", ByteLevel");
}

std::unique_ptr<TokenDecoder> make_byte_level_decoder() { return std::make_unique<ByteLevelDecoder>(); }

}  // namespace anyaccel::llm
