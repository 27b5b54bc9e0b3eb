#include "text/tokenizer/aho_corasick.h"

#include <algorithm>

namespace anyaccel::llm {

AhoCorasick::AhoCorasick(std::vector<std::pair<std::string, std::size_t>> words) {
  for (auto& word : words) std::reverse(word.first.begin(), word.first.end());
  std::stable_sort(words.begin(), words.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  words.erase(std::unique(words.begin(), words.end(),
                          [](const auto& a, const auto& b) { return a.first == b.first; }),
              words.end());
  for (const auto& [text, value] : words) words_.emplace_back(text.size(), value);
  if (words.empty()) return;

  struct Range {
    std::size_t low, high;  // range of words that end with the node's text
    Index parent;
  };
  std::vector<Range> ranges = {{0, words.size(), 0}};
  nodes_.emplace_back();
  std::size_t depth = 0;
  for (std::size_t node = 0, level = 1; node < nodes_.size(); ++node) {
    if (node == level) {
      ++depth;
      level = nodes_.size();
    }
    auto [low, high, parent] = ranges[node];
    if (node > 0) {
      Node& own = nodes_[node];
      own.fallback = parent == 0 ? 0 : next(nodes_[parent].fallback, own.byte);
      own.word = nodes_[own.fallback].word;
    }
    if (words[low].first.size() == depth) nodes_[node].word = static_cast<Index>(low++);
    nodes_[node].children = static_cast<Index>(nodes_.size());
    while (low < high) {
      const char byte = words[low].first[depth];
      const auto end =
          std::partition_point(words.begin() + static_cast<std::ptrdiff_t>(low),
                               words.begin() + static_cast<std::ptrdiff_t>(high),
                               [&](const auto& word) { return word.first[depth] == byte; });
      const auto behind = static_cast<std::size_t>(end - words.begin());
      ranges.push_back({low, behind, static_cast<Index>(node)});
      Node made;
      made.byte = static_cast<unsigned char>(byte);
      if (node == 0) first_[made.byte] = static_cast<Index>(nodes_.size());
      nodes_.push_back(made);
      ++nodes_[node].count;
      low = behind;
    }
  }
}

AhoCorasick::Index AhoCorasick::child(Index node, unsigned char byte) const {
  if (node == 0) return first_[byte];
  const Node& own = nodes_[node];
  const auto begin = nodes_.begin() + own.children, end = begin + own.count;
  const auto found = std::lower_bound(
      begin, end, byte, [](const Node& one, unsigned char b) { return one.byte < b; });
  return found != end && found->byte == byte ? static_cast<Index>(found - nodes_.begin()) : 0;
}

AhoCorasick::Index AhoCorasick::next(Index node, unsigned char byte) const {
  while (true) {
    if (const Index found = child(node, byte)) return found;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

std::vector<FoundWord> AhoCorasick::find(std::string_view text) const {
  std::vector<FoundWord> out;
  if (empty()) return out;
  Index node = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    node = next(node, static_cast<unsigned char>(text[at]));
    const Index word = nodes_[node].word;
    if (word != kNone) out.push_back({at, words_[word].first, words_[word].second});
  }
  return out;
}

}  // namespace anyaccel::llm
