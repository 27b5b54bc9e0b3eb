#include "llm/data/rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace anyaccel::llm {

namespace {

/// Number of unfinished rows during packing. With more of them, rows are fuller but the order is
/// less random.
constexpr std::size_t kOpenRows = 64;

/// SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014).
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::vector<RowPart> chosen(const std::vector<RowPart>& parts, std::uint64_t seed,
                            const HoldOut& hold_out) {
  const auto count =
      static_cast<std::size_t>(std::ceil(hold_out.fraction * static_cast<double>(parts.size())));
  std::vector<bool> held(parts.size());
  const auto order = shuffled(parts.size(), seed, UINT64_MAX);
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) held[order[i]] = true;
  std::vector<RowPart> out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (held[i] == hold_out.held_out) out.push_back(parts[i]);
  }
  return out;
}

}  // namespace

std::vector<std::uint32_t> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::uint64_t state = seed;
  state = next_random(state) ^ stream;
  for (std::size_t i = count; i > 1; --i) {
    // The upper half of the product of i and a random 32-bit number is below i.
    const std::uint64_t product = (next_random(state) >> 32) * i;
    std::swap(order[i - 1], order[static_cast<std::size_t>(product >> 32)]);
  }
  return order;
}

Rows::Rows(const ExampleStore& store, std::int64_t context, bool packing, std::uint64_t seed,
           const HoldOut& hold_out) {
  const auto width = static_cast<std::uint32_t>(context);
  std::vector<RowPart> parts = sequences(store, width);
  if (hold_out.fraction > 0) parts = chosen(parts, seed, hold_out);
  for (const RowPart& part : parts) tokens_ += part.length;
  if (!packing) {
    begins_.resize(parts.size() + 1);
    std::iota(begins_.begin(), begins_.end(), std::size_t{0});
    parts_ = std::move(parts);
    return;
  }
  const auto order = shuffled(parts.size(), seed, 0);
  std::vector<RowPart> mixed;
  mixed.reserve(parts.size());
  for (const std::uint32_t i : order) mixed.push_back(parts[i]);
  parts.clear();
  parts.shrink_to_fit();
  pack(mixed, width);
}

std::vector<RowPart> Rows::sequences(const ExampleStore& store, std::uint32_t context) {
  std::vector<RowPart> out;
  for (std::size_t i = 0; i < store.size(); ++i) {
    const std::uint32_t length = store.length(i);
    const bool cut = store.divisible(i);
    truncated_ += !cut && length > context;
    bool used = false;
    for (std::uint32_t begin = 0;;) {
      const std::uint32_t count = std::min(length - begin, context);
      if (count > 1 && store.learned_in(i, begin + 1, count - 1) > 0) {
        out.push_back({static_cast<std::uint32_t>(i), begin, count});
        used = true;
      }
      if (!cut || begin + count >= length) break;
      begin += count - 1;
    }
    left_out_ += !used;
  }
  return out;
}

void Rows::pack(const std::vector<RowPart>& sequences, std::uint32_t context) {
  std::multimap<std::uint32_t, std::vector<RowPart>> open;  // by free tokens
  const auto close = [&](auto row) {
    parts_.insert(parts_.end(), row->second.begin(), row->second.end());
    begins_.push_back(parts_.size());
    open.erase(row);
  };
  parts_.reserve(sequences.size());
  for (const RowPart& sequence : sequences) {
    const auto fits = open.lower_bound(sequence.length);
    std::vector<RowPart> row;
    std::uint32_t free = context;
    if (fits != open.end()) {
      free = fits->first;
      row = std::move(fits->second);
      open.erase(fits);
    }
    row.push_back(sequence);
    const auto place = open.emplace(free - sequence.length, std::move(row));
    if (place->first < 2)
      close(place);
    else if (open.size() > kOpenRows)
      close(open.begin());
  }
  while (!open.empty()) close(open.begin());
}

RowOrder::RowOrder(std::size_t rows, std::uint64_t seed, bool shuffle)
    : rows_(rows), seed_(seed), epoch_(UINT64_MAX), shuffle_(shuffle) {}

std::size_t RowOrder::at(std::uint64_t position) {
  const std::uint64_t epoch = position / rows_;
  if (!shuffle_) return position % rows_;
  if (epoch != epoch_) {
    order_ = shuffled(rows_, seed_, epoch + 1);
    epoch_ = epoch;
  }
  return order_[position % rows_];
}

}  // namespace anyaccel::llm
