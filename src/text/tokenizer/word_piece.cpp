// WordPiece (greedy longest-match-first) and WordLevel (whole words).
#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "text/tokenizer/aho_corasick.h"
#include "text/tokenizer/factories.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

class WordPiece final : public TokenModel {
 public:
  explicit WordPiece(const TokenizerNode& node)
      : max_characters_(static_cast<std::size_t>(
            node.integer("max_input_chars_per_word", 0, std::int64_t{1} << 32).value_or(100))) {
    read_vocabulary(node, vocabulary_);
    unknown_ = vocabulary_.id(node.string("unk_token").value_or("[UNK]"));
    const std::string prefix = node.string("continuing_subword_prefix").value_or("##");
    std::vector<std::pair<std::string, std::size_t>> first, later;
    for (const auto& [word, id] : node.object("vocab")->items()) {
      const auto value = static_cast<std::size_t>(*vocabulary_.id(word));
      if (!word.empty()) first.emplace_back(word, value);
      if (word.size() > prefix.size() && word.starts_with(prefix))
        later.emplace_back(word.substr(prefix.size()), value);
    }
    first_ = AhoCorasick(std::move(first));
    later_ = AhoCorasick(std::move(later));
  }

  void tokenize(std::string_view piece, TokenIds& ids) const override {
    const std::size_t before = ids.size();
    std::size_t characters = 0;
    for_each_character(piece, [&](char32_t, std::string_view) { ++characters; });
    if (characters <= max_characters_ && cut(piece, ids)) return;
    ids.resize(before);
    if (!unknown_) {
      throw Error(ErrorCode::invalid_argument, "Tokenizer::encode",
                  {.what = "the vocabulary has neither the word nor the unknown token",
                   .got = quoted_text(piece)});
    }
    ids.push_back(*unknown_);
  }

 private:
  /// Appends the token ids of the whole word. Returns false if the word cannot be split into
  /// vocabulary tokens. Runs in linear time.
  bool cut(std::string_view piece, TokenIds& ids) const {
    const std::vector<FoundWord> first = first_.find(piece);
    if (first.empty() || first.back().begin != 0) return false;
    ids.push_back(static_cast<std::int64_t>(first.back().value));
    std::size_t begin = first.back().size;
    const std::vector<FoundWord> later =
        begin < piece.size() ? later_.find(piece) : std::vector<FoundWord>();
    for (auto word = later.rbegin(); begin < piece.size(); ++word) {
      while (word != later.rend() && word->begin < begin) ++word;
      if (word == later.rend() || word->begin != begin) return false;
      ids.push_back(static_cast<std::int64_t>(word->value));
      begin += word->size;
    }
    return true;
  }

  std::size_t max_characters_;
  std::optional<std::int64_t> unknown_;
  AhoCorasick first_, later_;  ///< tokens that can start a word, and continuation tokens ("##...")
};

class WordLevel final : public TokenModel {
 public:
  explicit WordLevel(const TokenizerNode& node) {
    read_vocabulary(node, vocabulary_);
    unknown_ = vocabulary_.id(node.string("unk_token").value_or("<unk>"));
  }
  void tokenize(std::string_view piece, TokenIds& ids) const override {
    const auto id = vocabulary_.id(piece);
    if (!id && !unknown_) {
      throw Error(ErrorCode::invalid_argument, "Tokenizer::encode",
                  {.what = "the vocabulary has neither the word nor the unknown token",
                   .got = quoted_text(piece)});
    }
    ids.push_back(id ? *id : *unknown_);
  }

 private:
  std::optional<std::int64_t> unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> make_word_piece(const TokenizerNode& node) {
  return std::make_unique<WordPiece>(node);
}
std::unique_ptr<TokenModel> make_word_level(const TokenizerNode& node) {
  return std::make_unique<WordLevel>(node);
}

}  // namespace anyaccel::llm
