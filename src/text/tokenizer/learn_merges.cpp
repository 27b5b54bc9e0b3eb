#include "text/tokenizer/learn_merges.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace anyaccel::llm {

namespace {

using Pair = std::pair<std::uint16_t, std::uint16_t>;

/// Maximum size of a pre-token in bytes. Longer ones are not words, and every merge that affects
/// them would have to scan them.
constexpr std::size_t kMaxPiece = 64;

struct CountedWord {
  std::vector<std::uint16_t> ids;
  std::int64_t count;
};

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    return (static_cast<std::size_t>(pair.first) << 16 | pair.second) * 0x9e3779b97f4a7c15ULL;
  }
};

struct Occurrences {
  std::int64_t count = 0;
  std::vector<std::uint32_t>
      words;  ///< may contain duplicates, and words that no longer contain the pair
};

struct FrequentPair {
  std::int64_t count;
  Pair pair;
  bool operator<(const FrequentPair& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Learner {
 public:
  explicit Learner(const std::vector<PieceCount>& pieces, std::uint16_t first_id)
      : texts_(first_id) {
    for (std::size_t byte = 0; byte < 256; ++byte) texts_[byte] = static_cast<char>(byte);
    for (const auto& [text, count] : pieces) {
      if (text.size() < 2 || text.size() > kMaxPiece) continue;
      CountedWord word{.ids = {}, .count = count};
      for (const char c : text) word.ids.push_back(static_cast<unsigned char>(c));
      words_.push_back(std::move(word));
    }
    for (std::uint32_t i = 0; i < words_.size(); ++i) count_pairs(i, 1);
    for (const auto& [pair, found] : pairs_) offer(pair, found.count);
  }

  Merges learn(std::size_t count) {
    Merges merges;
    while (merges.size() < count && !heap_.empty()) {
      const FrequentPair best = heap_.top();
      heap_.pop();
      const std::int64_t now = pairs_[best.pair].count;
      if (now != best.count) {
        offer(best.pair, now);
        continue;
      }
      // A vocabulary identifies tokens by their text, so no two merges may produce the same text.
      std::string text = texts_[best.pair.first] + texts_[best.pair.second];
      if (!known_.insert(text).second) continue;
      merge(best.pair, static_cast<std::uint16_t>(texts_.size()));
      texts_.push_back(std::move(text));
      merges.push_back(best.pair);
    }
    return merges;
  }

 private:
  void offer(const Pair& pair, std::int64_t count) {
    if (count > 1) heap_.push({count, pair});
  }

  /// Adds the counts of a word's pairs (`sign` 1) or subtracts them (-1).
  void count_pairs(std::uint32_t index, int sign) {
    const CountedWord& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      Occurrences& found = pairs_[{word.ids[i], word.ids[i + 1]}];
      found.count += sign * word.count;
      if (sign > 0 && (found.words.empty() || found.words.back() != index))
        found.words.push_back(index);
    }
  }

  void merge(const Pair& pair, std::uint16_t id) {
    for (const std::uint32_t index : std::exchange(pairs_[pair].words, {})) {
      std::vector<std::uint16_t>& ids = words_[index].ids;
      std::vector<std::uint16_t> merged;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool here = i + 1 < ids.size() && Pair{ids[i], ids[i + 1]} == pair;
        merged.push_back(here ? id : ids[i]);
        i += here ? 1 : 0;
      }
      if (merged.size() == ids.size()) continue;
      count_pairs(index, -1);
      ids.swap(merged);
      count_pairs(index, 1);
      // Only pairs with the new id are new. If another pair's count decreased, its heap entry is
      // corrected when it reaches the top.
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] != id) continue;
        if (i > 0) grown_.push_back({ids[i - 1], id});
        if (i + 1 < ids.size()) grown_.push_back({id, ids[i + 1]});
      }
    }
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const Pair& one : grown_) offer(one, pairs_[one].count);
    grown_.clear();
  }

  std::vector<std::string> texts_;  ///< by id
  std::unordered_set<std::string> known_;
  std::vector<CountedWord> words_;
  std::unordered_map<Pair, Occurrences, PairHash> pairs_;
  std::priority_queue<FrequentPair> heap_;
  std::vector<Pair> grown_;  ///< new pairs from the last merge
};

}  // namespace

Merges learn_merges(const std::vector<PieceCount>& pieces, std::size_t count,
                    std::uint16_t first_id) {
  return Learner(pieces, first_id).learn(count);
}

}  // namespace anyaccel::llm
