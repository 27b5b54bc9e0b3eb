// Suggestions for misspelled commands and options.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "anyaccel/export.h"

namespace anyaccel {

/// Returns the known name that `word` probably means, or an empty view. Prefers a name that begins
/// with `word`, otherwise the name with the fewest typos (inserted, missing, wrong or swapped
/// letters), if at most a third of the letters are wrong. Ignores leading dashes, and treats `_` as
/// `-`.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> known);

/// Returns "; did you mean '--devices'?" for the nearest name, or an empty string.
ANYACCEL_API std::string did_you_mean(std::string_view word,
                                      std::span<const std::string_view> known);

}  // namespace anyaccel
