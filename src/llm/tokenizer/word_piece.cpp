// WordPiece: the longest known beginning of a word, again and again; and WordLevel: whole words.
#include <algorithm>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "llm/tokenizer/factories.h"
#include "llm/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

class WordPiece final : public TokenModel {
 public:
  explicit WordPiece(const TokenizerNode& node)
      : prefix_(node.string("continuing_subword_prefix").value_or("##")),
        max_characters_(static_cast<std::size_t>(
            node.integer("max_input_chars_per_word", 0, std::int64_t{1} << 32).value_or(100))) {
    read_vocabulary(node, vocabulary_);
    unknown_ = vocabulary_.id(node.string("unk_token").value_or("[UNK]"));
    for (const auto& [word, id] : node.object("vocab")->items()) longest_ = std::max(longest_, word.size());
  }

  void tokenize(std::string_view piece, TokenIds& ids) const override {
    const std::size_t before = ids.size();
    std::size_t characters = 0;
    for_each_character(piece, [&](char32_t, std::string_view) { ++characters; });
    bool known = characters <= max_characters_;
    for (std::size_t begin = 0; known && begin < piece.size();) {
      std::string word = begin == 0 ? "" : prefix_;
      const std::size_t skip = word.size();
      word += piece.substr(begin, longest_);
      std::optional<std::int64_t> found;
      for (; word.size() > skip; word.pop_back()) {
        if ((found = vocabulary_.id(word))) break;
      }
      known = found.has_value();
      if (known) ids.push_back(*found);
      begin += word.size() - skip;
    }
    if (known) return;
    ids.resize(before);
    if (!unknown_) {
      throw Error(ErrorCode::invalid_argument, "Tokenizer::encode",
                  {.what = "the vocabulary has neither the word nor the unknown token", .got = quoted_text(piece)});
    }
    ids.push_back(*unknown_);
  }

 private:
  std::string prefix_;
  std::size_t max_characters_;
  std::size_t longest_ = 0;
  std::optional<std::int64_t> unknown_;
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
                  {.what = "the vocabulary has neither the word nor the unknown token", .got = quoted_text(piece)});
    }
    ids.push_back(id ? *id : *unknown_);
  }

 private:
  std::optional<std::int64_t> unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> make_word_piece(const TokenizerNode& node) { return std::make_unique<WordPiece>(node); }
std::unique_ptr<TokenModel> make_word_level(const TokenizerNode& node) { return std::make_unique<WordLevel>(node); }

}  // namespace anyaccel::llm
