// The steps from text to ids and back, named as in tokenizer.json:
// normalizer -> pre-tokenizer -> model -> post-processor, and decoder. Each is immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/normalized_text.h"
#include "text/tokenizer/read.h"

namespace anyaccel::llm {

using TokenIds = std::vector<std::int64_t>;

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(NormalizedText& text) const = 0;
};

/// A pre-token: a part of the text that the model tokenizes independently.
struct Piece {
  std::string text;
  /// Number of leading bytes aligned to byte 0 of the whole text. If it is above 0, this is the
  /// first pre-token of the text.
  std::size_t lead;
};

/// The pre-tokens of a text, in order.
class Pieces {
 public:
  explicit Pieces(TextLimit limit) : limit_(limit) {}
  /// Appends a pre-token unless it is empty.
  void add(Piece piece);
  TextLimit limit() const { return limit_; }
  std::size_t bytes() const { return bytes_; }
  std::vector<Piece>& all() { return all_; }

 private:
  std::vector<Piece> all_;
  std::size_t bytes_ = 0;
  TextLimit limit_;
};

/// Splits pre-tokens into smaller ones.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(Piece piece, Pieces& out) const = 0;
};

/// A bidirectional map between tokens and ids.
class Vocabulary {
 public:
  /// Adds a token. A duplicate token gets the later id.
  void add(const std::string& word, std::int64_t id);
  std::optional<std::int64_t> id(std::string_view word) const;
  /// Returns null for an unknown id.
  const std::string* word(std::int64_t id) const;
  std::size_t size() const { return ids_.size(); }
  /// Appends the ids of the byte tokens (<0x00> to <0xFF>) for the bytes of `text`. If the
  /// vocabulary lacks one of them, returns false without appending any ids.
  bool append_byte_tokens(std::string_view text, TokenIds& ids) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<std::int64_t, std::string> words_;
};

/// Converts a non-empty pre-token to token ids.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void tokenize(std::string_view piece, TokenIds& ids) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

/// Adds the special tokens around a text.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void process(TokenIds& ids) const = 0;
};

/// The text of tokens during decoding: the concatenation of `parts`.
struct Decoding {
  std::vector<std::string> parts;
  /// True if the parts continue a text, so that steps for the beginning of a text do not apply.
  bool inside = false;
  bool raw = false;    ///< true to keep bytes that are not UTF-8
  bool fused = false;  ///< true if the parts were joined
  TextLimit limit = TextLimit::of(0);
};

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  virtual void decode(Decoding& text) const = 0;
};

// Create a step from its object in tokenizer.json. Throw `unsupported` naming the construct, or
// `corrupt`.
std::unique_ptr<Normalizer> read_normalizer(const TokenizerNode& node);
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const TokenizerNode& node);
std::unique_ptr<TokenModel> read_model(const TokenizerNode& node);
std::unique_ptr<PostProcessor> read_post_processor(const TokenizerNode& node);
std::unique_ptr<TokenDecoder> read_decoder(const TokenizerNode& node);

}  // namespace anyaccel::llm
