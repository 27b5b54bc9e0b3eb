#include "llm/data/example_store.h"

#include <algorithm>

namespace anyaccel::llm {

namespace {

/// Tokens per block. Growing a single vector would need both copies in memory.
constexpr std::size_t kTokensPerBlock = std::size_t{1} << 22;

template <typename T>
std::pair<std::uint32_t, std::uint32_t> append_ids(std::vector<std::vector<T>>& blocks,
                                                   std::span<const std::int64_t> ids) {
  if (blocks.empty() || blocks.back().capacity() - blocks.back().size() < ids.size()) {
    blocks.emplace_back();
    blocks.back().reserve(std::max(kTokensPerBlock, ids.size()));
  }
  std::vector<T>& block = blocks.back();
  const auto offset = static_cast<std::uint32_t>(block.size());
  for (const std::int64_t id : ids) block.push_back(static_cast<T>(id));
  return {static_cast<std::uint32_t>(blocks.size() - 1), offset};
}

}  // namespace

ExampleStore::ExampleStore(std::int64_t vocab_size) : wide_(vocab_size > 65536) {}

void ExampleStore::mix(std::uint64_t value) noexcept { fingerprint_ = fnv1a(fingerprint_, value); }

void ExampleStore::add(std::span<const std::int64_t> ids, std::span<const TokenSpan> learned) {
  const auto length = static_cast<std::uint32_t>(ids.size());
  const auto [block, offset] =
      wide_ ? append_ids(wide_blocks_, ids) : append_ids(narrow_blocks_, ids);
  const bool all = learned.size() == 1 && learned[0].begin == 0 && learned[0].end == length;
  examples_.push_back({block, offset, length, all, spans_.size()});
  spans_.insert(spans_.end(), learned.begin(), learned.end());
  tokens_ += length;
  mix(length);
  for (const std::int64_t id : ids) mix(static_cast<std::uint64_t>(id));
  for (const TokenSpan& span : learned) {
    mix(std::uint64_t{span.begin} << 32 | span.end);
    // The first token is never predicted.
    learned_ += span.end - std::min(span.end, std::max<std::uint32_t>(span.begin, 1));
  }
}

std::span<const TokenSpan> ExampleStore::spans(std::size_t example) const {
  const std::size_t begin = examples_[example].first_span;
  const std::size_t end =
      example + 1 < examples_.size() ? examples_[example + 1].first_span : spans_.size();
  return std::span(spans_).subspan(begin, end - begin);
}

void ExampleStore::read(std::size_t example, std::uint32_t begin, std::uint32_t count,
                        std::int64_t* ids, std::int64_t* labels) const {
  const Example& one = examples_[example];
  const std::size_t from = std::size_t{one.offset} + begin;
  for (std::size_t i = 0; i < count; ++i)
    ids[i] = wide_ ? wide_blocks_[one.block][from + i] : narrow_blocks_[one.block][from + i];
  std::fill_n(labels, count, -100);
  for (const TokenSpan& span : spans(example)) {
    const std::uint32_t low = std::max(span.begin, begin), high = std::min(span.end, begin + count);
    for (std::uint32_t i = low; i < high; ++i) labels[i - begin] = ids[i - begin];
  }
}

std::int64_t ExampleStore::learned_in(std::size_t example, std::uint32_t begin,
                                      std::uint32_t count) const {
  std::int64_t sum = 0;
  for (const TokenSpan& span : spans(example)) {
    const std::uint32_t low = std::max(span.begin, begin), high = std::min(span.end, begin + count);
    if (low < high) sum += high - low;
  }
  return sum;
}

}  // namespace anyaccel::llm
