// Suggestions for misspelled names: commands, options.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace anyaccel {

/// The known name that `word` probably means, or an empty view. A name that begins with `word` comes first; otherwise the name with the
/// fewest typing errors (inserted, missing, wrong or swapped letters), if they are at most a third of the letters. Leading dashes do not
/// count, and `_` equals `-`.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> known);

/// "; did you mean '--devices'?" for the nearest name, or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace anyaccel
