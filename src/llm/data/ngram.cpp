#include "llm/data/ngram.h"

#include <algorithm>
#include <cmath>

#include "llm/data/corpus.h"

namespace anyaccel::llm {

namespace {

constexpr std::size_t kSize = kByteVocabulary;

template <typename Total>
double interpolate(std::uint32_t count, const Total& total, double lower) {
  const double all = static_cast<double>(total.count) + total.kinds;
  return all > 0 ? (count + total.kinds * lower) / all : lower;
}

}  // namespace

std::vector<Window> spread_windows(std::size_t size, std::size_t length, std::size_t count) {
  if (size < length || length < 2) return {};
  count = std::min(count, size / length);
  std::vector<Window> windows;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t last = size - length;
    windows.push_back({count == 1 ? 0 : last * i / (count - 1), length});
  }
  return windows;
}

double unigram_entropy(std::span<const std::uint16_t> stream, std::span<const Window> windows) {
  std::vector<std::size_t> counts(kSize);
  std::size_t total = 0;
  for (const Window& window : windows) {
    for (std::size_t i = window.begin + 1; i < window.begin + window.length; ++i)
      ++counts[stream[i]];
    total += window.length - 1;
  }
  double entropy = 0;
  for (const std::size_t count : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(total);
    if (count > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

NgramModel::NgramModel(std::span<const std::uint16_t> train)
    : one_(kSize),
      two_(kSize * kSize),
      three_(kSize * kSize * kSize),
      after_one_(kSize),
      after_two_(kSize * kSize) {
  std::size_t second = kEndOfText;
  std::size_t first = kEndOfText;
  for (const std::uint16_t token : train) {
    const std::size_t pair = second * kSize + first;
    if (one_[token]++ == 0) ++total_.kinds;
    if (two_[first * kSize + token]++ == 0) ++after_one_[first].kinds;
    if (three_[pair * kSize + token]++ == 0) ++after_two_[pair].kinds;
    ++total_.count;
    ++after_one_[first].count;
    ++after_two_[pair].count;
    second = first;
    first = token;
  }
}

double NgramModel::probability(std::uint16_t second, std::uint16_t first,
                               std::uint16_t token) const {
  const std::size_t pair = second * kSize + first;
  const double zero = 1.0 / static_cast<double>(kSize);
  const double one = interpolate(one_[token], total_, zero);
  const double two = interpolate(two_[first * kSize + token], after_one_[first], one);
  return interpolate(three_[pair * kSize + token], after_two_[pair], two);
}

double NgramModel::loss(std::span<const std::uint16_t> stream,
                        std::span<const Window> windows) const {
  double sum = 0;
  std::size_t total = 0;
  for (const Window& window : windows) {
    for (std::size_t i = window.begin + 1; i < window.begin + window.length; ++i) {
      sum -= std::log(probability(i >= 2 ? stream[i - 2] : kEndOfText, stream[i - 1], stream[i]));
    }
    total += window.length - 1;
  }
  return total > 0 ? sum / static_cast<double>(total) : 0.0;
}

}  // namespace anyaccel::llm
