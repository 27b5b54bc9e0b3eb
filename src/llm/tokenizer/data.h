// What a tokenizer knows.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "anyaccel/llm/tokenizer.h"

namespace anyaccel::llm {

struct Tokenizer::Data {
  struct Merge {
    std::int64_t rank;  ///< lower ones are done first
    std::int64_t id;    ///< the token that the pair becomes
  };
  struct Special {
    std::string text;
    std::int64_t id;
    bool special;  ///< left out of decoded text
  };

  std::unordered_map<std::int64_t, std::string> bytes;  ///< per id
  std::array<std::int64_t, 256> byte_ids;               ///< -1: the vocabulary lacks it
  std::unordered_map<std::uint64_t, Merge> merges;      ///< by pair(left, right)
  std::vector<Special> added;                           ///< longest first

  static std::uint64_t pair(std::int64_t left, std::int64_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
  }
  /// Appends the ids of a text without special tokens.
  void encode_plain(std::string_view text, std::vector<std::int64_t>& ids) const;
};

}  // namespace anyaccel::llm
