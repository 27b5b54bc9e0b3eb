#include "anyaccel/llm/tokenizer.h"

#include <queue>

#include "anyaccel/error.h"
#include "llm/tokenizer/data.h"

namespace anyaccel::llm {

namespace {

/// A pair of neighbours that may become one token. The heap gives the lowest rank, of equals the leftmost.
struct Candidate {
  std::int64_t rank;
  std::size_t left;
  std::size_t right;
  std::uint64_t pair;
  std::int64_t id;
  bool operator<(const Candidate& other) const { return std::pair(rank, left) > std::pair(other.rank, other.left); }
};

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

}  // namespace

void Tokenizer::Data::encode_plain(std::string_view text, std::vector<std::int64_t>& ids) const {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) {
    const std::int64_t id = byte_ids[static_cast<unsigned char>(c)];
    if (id < 0) {
      throw Error(ErrorCode::invalid_argument, "Tokenizer::encode",
                  {.what = "the vocabulary has no token for byte " + std::to_string(static_cast<unsigned char>(c)),
                   .hint = "give token ids with --prompt-ids"});
    }
    tokens.push_back(id);
  }
  if (merges.empty() || tokens.size() < 2) {
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    return;
  }
  // Tokens are a linked list; merging keeps the left one. Candidates whose pair has changed since are skipped.
  std::vector<std::size_t> previous(tokens.size()), next(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    previous[i] = i == 0 ? kNone : i - 1;
    next[i] = i + 1 == tokens.size() ? kNone : i + 1;
  }
  std::priority_queue<Candidate> heap;
  const auto offer = [&](std::size_t left, std::size_t right) {
    if (left == kNone || right == kNone) return;
    const std::uint64_t key = pair(tokens[left], tokens[right]);
    const auto it = merges.find(key);
    if (it != merges.end()) heap.push({it->second.rank, left, right, key, it->second.id});
  };
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) offer(i, i + 1);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    const bool alive = tokens[best.left] >= 0 && next[best.left] == best.right && tokens[best.right] >= 0 &&
                       pair(tokens[best.left], tokens[best.right]) == best.pair;
    if (!alive) continue;
    tokens[best.left] = best.id;
    tokens[best.right] = -1;
    next[best.left] = next[best.right];
    if (next[best.left] != kNone) previous[next[best.left]] = best.left;
    offer(previous[best.left], best.left);
    offer(best.left, next[best.left]);
  }
  for (const std::int64_t token : tokens) {
    if (token >= 0) ids.push_back(token);
  }
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Data::Special* found = nullptr;
    for (const Data::Special& special : data_->added) {
      if (text.substr(i).starts_with(special.text)) {
        found = &special;
        break;
      }
    }
    if (!found) {
      ++i;
      continue;
    }
    data_->encode_plain(text.substr(begin, i - begin), ids);
    ids.push_back(found->id);
    i += found->text.size();
    begin = i;
  }
  data_->encode_plain(text.substr(begin), ids);
  return ids;
}

std::string Tokenizer::token_bytes(std::int64_t id) const {
  for (const Data::Special& special : data_->added) {
    if (special.id == id) return special.special ? std::string() : special.text;
  }
  const auto it = data_->bytes.find(id);
  if (it == data_->bytes.end()) {
    throw Error(ErrorCode::invalid_argument, "Tokenizer::token_bytes",
                {.what = "the vocabulary has no such token", .got = std::to_string(id)});
  }
  return it->second;
}

std::string Tokenizer::decode(const std::vector<std::int64_t>& ids) const {
  std::string out;
  for (const std::int64_t id : ids) out += token_bytes(id);
  return out;
}

std::int64_t Tokenizer::size() const noexcept {
  std::int64_t size = static_cast<std::int64_t>(data_->bytes.size());
  for (const Data::Special& special : data_->added) size += data_->bytes.count(special.id) == 0;
  return size;
}

}  // namespace anyaccel::llm
