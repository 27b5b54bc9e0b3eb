// Finds the word that begins at each position of a text: Aho-Corasick over the reversed words
// (doi:10.1145/360825.360855).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anyaccel::llm {

/// A word that begins at a position of a text.
struct FoundWord {
  std::size_t begin, size;
  std::size_t value;
};

class AhoCorasick {
 public:
  AhoCorasick() = default;
  /// `words`: non-empty words, each with a value. If a word occurs several times, its first value
  /// is used.
  explicit AhoCorasick(std::vector<std::pair<std::string, std::size_t>> words);

  bool empty() const { return words_.empty(); }
  /// Returns the longest word at each position where a word begins, from the last position to the
  /// first. The time is linear in the text's length for any set of words.
  std::vector<FoundWord> find(std::string_view text) const;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};
  /// A suffix of a word. Nodes with the same parent are adjacent, ordered by their bytes.
  struct Node {
    Index children = 0;  ///< first child
    /// Failure link: node of the longest proper prefix of this node's text that is in the trie.
    Index fallback = 0;
    Index word = kNone;  ///< longest word that is a prefix of this node's text
    std::uint16_t count = 0;
    unsigned char byte = 0;
  };
  Index child(Index node, unsigned char byte) const;
  Index next(Index node, unsigned char byte) const;

  std::vector<std::pair<std::size_t, std::size_t>> words_;  ///< size and value of each word
  std::vector<Node> nodes_;
  std::array<Index, 256> first_{};  ///< children of the root; 0: none
};

}  // namespace anyaccel::llm
