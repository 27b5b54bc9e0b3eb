#include "text/tokenizer/text_vocabulary.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "anyaccel/error.h"
#include "text/byte_vocabulary.h"
#include "text/json.h"
#include "text/tokenizer/byte_symbols.h"
#include "text/tokenizer/factories.h"
#include "text/tokenizer/text_pieces.h"
#include "text/tokenizer/tokenizer_json.h"

namespace anyaccel::llm {

namespace {

constexpr std::size_t kBytesPerMerge = 1024;
/// Minimum text size in bytes for learning merges. Shorter texts use bytes only, because they
/// repeat too little for merges to pay off.
constexpr std::size_t kLeastText = 64 << 10;

/// Calls `on_document` with the bytes of each document of a stream.
template <typename F>
void for_each_document(std::span<const std::uint16_t> stream, F on_document) {
  std::string text;
  for (auto begin = stream.begin(); begin != stream.end();) {
    const auto end = std::find(begin, stream.end(), kEndOfText);
    text.assign(begin, end);
    const bool ended = end != stream.end();
    on_document(text, ended);
    begin = ended ? end + 1 : end;
  }
}

template <typename F>
void for_each_piece(std::string_view text, F on_piece) {
  while (!text.empty()) {
    const std::size_t length = piece_length(text);
    on_piece(text.substr(0, length));
    text.remove_prefix(length);
  }
}

struct PieceHash : std::hash<std::string_view> {
  using is_transparent = void;
};
template <typename Value>
using ByPiece = std::unordered_map<std::string, Value, PieceHash, std::equal_to<>>;

std::string as_symbols(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += byte_symbols()[static_cast<unsigned char>(c)];
  return out;
}

std::uint16_t token_of(const TokenizerNode& model, const SortedJson& vocabulary,
                       const SortedJson& word) {
  const auto found = word.is_string() ? vocabulary.find(word.get<std::string>()) : vocabulary.end();
  if (found == vocabulary.end() || !found->is_number_unsigned() ||
      found->get<std::int64_t>() >= kMaxVocabulary)
    model.corrupt("a merge uses a token that is not in the vocabulary");
  return found->get<std::uint16_t>();
}

}  // namespace

TextVocabulary::TextVocabulary(const Merges& merges)
    : json_(byte_level_json(merges)), lengths_(kByteVocabulary, 1) {
  for (const auto& [left, right] : merges) lengths_.push_back(lengths_[left] + lengths_[right]);
  if (merges.empty()) return;
  const SortedJson root = parse_sorted_json_object(json_, "tokenizer.json");
  model_ = make_bpe(TokenizerNode(root, "tokenizer.json").child("model"));
}

TextVocabulary TextVocabulary::learn(std::span<const std::uint16_t> stream, std::int64_t size) {
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(size - kByteVocabulary, 0));
  const std::size_t count =
      std::min(wanted, (std::max(stream.size(), kLeastText) - kLeastText) / kBytesPerMerge);
  if (count == 0) return TextVocabulary(Merges());
  ByPiece<std::int64_t> pieces;
  for_each_document(stream, [&](const std::string& text, bool) {
    for_each_piece(text, [&](std::string_view piece) {
      const auto found = pieces.find(piece);
      if (found != pieces.end()) {
        ++found->second;
      } else {
        pieces.emplace(piece, 1);
      }
    });
  });
  const std::vector<PieceCount> counts(pieces.begin(), pieces.end());
  return TextVocabulary(learn_merges(counts, count, kByteVocabulary));
}

TextVocabulary TextVocabulary::read(const std::string& json, const std::string& source) {
  if (json.empty()) return TextVocabulary(Merges());
  const SortedJson root = parse_sorted_json_object(json, source);
  const TokenizerNode model = TokenizerNode(root, source).child("model");
  const SortedJson* vocabulary = model.object("vocab");
  const SortedJson* pairs = model.array("merges");
  Merges merges;
  if (vocabulary && pairs &&
      static_cast<std::int64_t>(pairs->size()) + kByteVocabulary <= kMaxVocabulary) {
    for (const SortedJson& pair : *pairs) {
      if (!pair.is_array() || pair.size() != 2) model.corrupt("a merge is not a pair");
      merges.emplace_back(token_of(model, *vocabulary, pair[0]),
                          token_of(model, *vocabulary, pair[1]));
      const auto last = static_cast<std::size_t>(kByteVocabulary) + merges.size() - 1;
      if (merges.back().first >= last || merges.back().second >= last)
        model.corrupt("a merge uses a later token");
    }
  }
  TextVocabulary out(merges);
  // A resumed run gets the same ids only if the whole file is exactly as we write it.
  if (!vocabulary || parse_sorted_json_object(out.json_, source) != root)
    model.unsupported("a tokenizer that `anyaccel train` did not write");
  return out;
}

std::vector<std::uint16_t> TextVocabulary::encode(std::span<const std::uint16_t> stream) const {
  if (!model_) return {stream.begin(), stream.end()};
  std::vector<std::uint16_t> out;
  ByPiece<std::vector<std::uint16_t>> known;
  TokenIds ids;
  for_each_document(stream, [&](const std::string& text, bool ended) {
    for_each_piece(text, [&](std::string_view piece) {
      auto found = known.find(piece);
      if (found == known.end()) {
        ids.clear();
        model_->tokenize(as_symbols(piece), ids);
        found = known.emplace(piece, std::vector<std::uint16_t>(ids.begin(), ids.end())).first;
      }
      out.insert(out.end(), found->second.begin(), found->second.end());
    });
    if (ended) out.push_back(kEndOfText);
  });
  return out;
}

}  // namespace anyaccel::llm
