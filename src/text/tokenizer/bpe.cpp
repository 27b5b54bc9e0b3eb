// Byte pair encoding: merges adjacent tokens, starting with the pair of the lowest rank.
#include <queue>

#include "base/untrusted_text.h"
#include "text/tokenizer/factories.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// A pair of adjacent tokens that may be merged. The heap returns the lowest rank first, and the
/// leftmost pair among equal ranks.
struct Candidate {
  std::int64_t rank;
  std::size_t left;
  std::int64_t id;
  bool operator<(const Candidate& other) const {
    return std::pair(rank, left) > std::pair(other.rank, other.left);
  }
};

class Bpe final : public TokenModel {
 public:
  explicit Bpe(const TokenizerNode& node);
  void tokenize(std::string_view piece, TokenIds& ids) const override;

 private:
  struct Merge {
    std::int64_t rank;  ///< lower ranks are merged first
    std::int64_t id;    ///< the merged token
  };
  static std::uint64_t pair(std::int64_t left, std::int64_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
  }
  void read_merges(const TokenizerNode& node, const SortedJson& merges);
  TokenIds characters(std::string_view piece) const;
  void merge(TokenIds& tokens) const;

  std::unordered_map<std::uint64_t, Merge> merges_;  ///< indexed by pair(left, right)
  std::string prefix_, suffix_;
  std::optional<std::int64_t> unknown_;
  bool fuse_unknown_, byte_fallback_, ignore_merges_;
};

std::pair<std::string, std::string> read_merge(const SortedJson& merge, const TokenizerNode& node) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {  // files written before tokenizers 0.20
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  node.corrupt("malformed merge " + printable_text(merge.dump(), 200));
}

Bpe::Bpe(const TokenizerNode& node)
    : prefix_(node.string("continuing_subword_prefix").value_or("")),
      suffix_(node.string("end_of_word_suffix").value_or("")),
      fuse_unknown_(node.flag("fuse_unk", false)),
      byte_fallback_(node.flag("byte_fallback", false)),
      ignore_merges_(node.flag("ignore_merges", false)) {
  if (node.number("dropout").value_or(0) != 0) node.unsupported("dropout");
  read_vocabulary(node, vocabulary_);
  if (const SortedJson* merges = node.array("merges")) read_merges(node, *merges);
  if (const auto unknown = node.string("unk_token")) unknown_ = vocabulary_.id(*unknown);
}

void Bpe::read_merges(const TokenizerNode& node, const SortedJson& merges) {
  std::int64_t rank = 0;
  for (const SortedJson& merge : merges) {
    const auto [left, right] = read_merge(merge, node);
    const auto l = vocabulary_.id(left), r = vocabulary_.id(right);
    const auto both = right.size() < prefix_.size()
                          ? std::nullopt
                          : vocabulary_.id(left + right.substr(prefix_.size()));
    if (!l || !r || !both)
      node.corrupt("the vocabulary lacks a part of the merge " + quoted_text(left + " " + right));
    merges_.insert_or_assign(pair(*l, *r), Merge{rank++, *both});
  }
}

TokenIds Bpe::characters(std::string_view piece) const {
  TokenIds tokens;
  tokens.reserve(piece.size());
  bool pending = false;  // the next unknown character may be added to an unknown token
  std::string changed;
  std::size_t at = 0;
  for_each_character(piece, [&](char32_t, std::string_view bytes) {
    std::string_view word = bytes;
    const bool first = at == 0, last = at + bytes.size() == piece.size();
    at += bytes.size();
    if ((!first && !prefix_.empty()) || (last && !suffix_.empty())) {
      changed = (first ? "" : prefix_) + std::string(bytes) + (last ? suffix_ : "");
      word = changed;
    }
    if (const auto id = vocabulary_.id(word)) {
      if (pending) tokens.push_back(*unknown_);
      pending = false;
      tokens.push_back(*id);
      return;
    }
    if (byte_fallback_ && vocabulary_.append_byte_tokens(word, tokens)) return;
    if (!unknown_) return;  // Hugging Face tokenizers drops such a character
    if (pending && !fuse_unknown_) tokens.push_back(*unknown_);
    pending = true;
  });
  if (pending) tokens.push_back(*unknown_);
  return tokens;
}

void Bpe::merge(TokenIds& tokens) const {
  // Tokens form a linked list, and a merge keeps the left token. Skip candidates whose pair has
  // changed in the meantime.
  std::vector<std::size_t> previous(tokens.size()), next(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    previous[i] = i == 0 ? kNone : i - 1;
    next[i] = i + 1 == tokens.size() ? kNone : i + 1;
  }
  std::priority_queue<Candidate> heap;
  const auto offer = [&](std::size_t left) {
    if (left == kNone || next[left] == kNone) return;
    const auto it = merges_.find(pair(tokens[left], tokens[next[left]]));
    if (it != merges_.end()) heap.push({it->second.rank, left, it->second.id});
  };
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) offer(i);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    if (tokens[best.left] < 0 || next[best.left] == kNone) continue;
    const std::size_t right = next[best.left];
    const auto it = merges_.find(pair(tokens[best.left], tokens[right]));
    if (it == merges_.end() || it->second.id != best.id) continue;
    tokens[best.left] = best.id;
    tokens[right] = -1;
    next[best.left] = next[right];
    if (next[right] != kNone) previous[next[right]] = best.left;
    offer(previous[best.left]);
    offer(best.left);
  }
  std::erase(tokens, -1);
}

void Bpe::tokenize(std::string_view piece, TokenIds& ids) const {
  if (ignore_merges_) {
    if (const auto id = vocabulary_.id(piece)) {
      ids.push_back(*id);
      return;
    }
  }
  TokenIds tokens = characters(piece);
  if (!merges_.empty() && tokens.size() > 1) merge(tokens);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

}  // namespace

std::unique_ptr<TokenModel> make_bpe(const TokenizerNode& node) {
  return std::make_unique<Bpe>(node);
}

}  // namespace anyaccel::llm
