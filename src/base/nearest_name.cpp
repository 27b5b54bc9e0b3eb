#include "base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace anyaccel {

namespace {

/// Longer than any known name. The limit is needed because computing the edit distance takes
/// quadratic time.
constexpr std::size_t kLongestName = 100;

std::string comparable(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

/// Returns the edit distance: the number of character insertions, deletions, replacements and swaps
/// that turn `a` into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] =
          std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = row;
    row = next;
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> known) {
  const auto asked = comparable(word);
  // Any two one-letter names are a single edit apart, so a suggestion would be arbitrary.
  if (asked.size() < 2 || asked.size() > kLongestName) return {};
  std::string_view nearest;
  std::size_t least = (asked.size() < 4 ? 1 : std::max<std::size_t>(2, asked.size() / 3)) + 1;
  for (const auto name : known) {
    const auto candidate = comparable(name);
    const std::size_t letters = candidate.starts_with(asked) ? 0 : distance(asked, candidate);
    if (letters < least) nearest = name, least = letters;
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const auto name = nearest_name(word, known);
  return name.empty() ? "" : "; did you mean '" + std::string(name) + "'?";
}

}  // namespace anyaccel
