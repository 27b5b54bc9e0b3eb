// Which of many words begins at each place of a text: Aho-Corasick over the words read backwards (doi:10.1145/360825.360855).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anyaccel::llm {

/// A word that begins at a place of a text.
struct FoundWord {
  std::size_t begin, size;
  std::size_t value;
};

class WordFinder {
 public:
  WordFinder() = default;
  /// Words, not empty, with a value each. Of equal words the first one counts.
  explicit WordFinder(std::vector<std::pair<std::string, std::size_t>> words);

  bool empty() const { return words_.empty(); }
  /// The longest word that begins at each place where one does, from the last place to the first. Takes time in proportion
  /// to the text, whatever the words are.
  std::vector<FoundWord> find(std::string_view text) const;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};
  /// A word's end. Nodes with the same parent are neighbours, in the order of their bytes.
  struct Node {
    Index children = 0;  ///< the first one
    Index fallback = 0;  ///< node of the longest other end that the same text begins with
    Index word = kNone;  ///< longest word that the text begins with
    std::uint16_t count = 0;
    unsigned char byte = 0;
  };
  Index child(Index node, unsigned char byte) const;
  Index next(Index node, unsigned char byte) const;

  std::vector<std::pair<std::size_t, std::size_t>> words_;  ///< size and value
  std::vector<Node> nodes_;
  std::array<Index, 256> first_{};  ///< children of the root, 0 for none
};

}  // namespace anyaccel::llm
