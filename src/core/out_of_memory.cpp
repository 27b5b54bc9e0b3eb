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
  static constexpr std::array<std::string_view, 8> kPhrases{
      "out of memory",    "failed to allocate", "can't allocate",     "cannot allocate memory",
      "cannot allocate ", "could not allocate", "unable to allocate", "insufficient memory"};
  return std::any_of(kPhrases.begin(), kPhrases.end(),
                     [&](std::string_view phrase) { return contains(message, phrase); });
}

bool is_out_of_memory(const c10::Error& error) noexcept {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         reports_allocation_failure(error.what_without_backtrace());
}

}  // namespace anyaccel
