// Learns a byte-level BPE vocabulary (Sennrich et al., "Neural Machine Translation of Rare Words
// with Subword Units", ACL 2016).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace anyaccel::llm {

/// Pairs of token ids in merge order. Ids below `first_id` are bytes or special tokens; merge i
/// creates id `first_id + i`.
using Merges = std::vector<std::pair<std::uint16_t, std::uint16_t>>;

/// A pre-token and its number of occurrences.
using PieceCount = std::pair<std::string, std::int64_t>;

/// Learns at most `count` merges from pre-tokens. Always merges the most frequent pair and breaks
/// ties by the lowest ids, so the result does not depend on the order of `pieces`. Stops when no
/// pair occurs at least twice.
Merges learn_merges(const std::vector<PieceCount>& pieces, std::size_t count,
                    std::uint16_t first_id);

}  // namespace anyaccel::llm
