#include "core/out_of_memory.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace anyaccel {

namespace {

bool contains(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;  // `part` is in lower case
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

}  // namespace

bool reports_allocation_failure(std::string_view message) noexcept {
  if (contains(message, "out of memory") || contains(message, "insufficient memory")) return true;
  static constexpr std::array<std::string_view, 5> kPhrases{"failed to allocate", "can't allocate",
                                                            "cannot allocate", "could not allocate",
                                                            "unable to allocate"};
  // A device may also fail to allocate a stream, for example.
  return (contains(message, "memory") || contains(message, "byte")) &&
         std::any_of(kPhrases.begin(), kPhrases.end(),
                     [&](std::string_view phrase) { return contains(message, phrase); });
}

bool is_out_of_memory(const c10::Error& error) noexcept {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         reports_allocation_failure(error.what_without_backtrace());
}

}  // namespace anyaccel
