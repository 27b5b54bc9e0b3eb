#include "base/env.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "anyaccel/error.h"

namespace anyaccel {

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

bool env_flag(const char* name) {
  auto value = env(name);
  if (!value) return false;
  std::string lower = *value;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "1" || lower == "true" || lower == "yes" || lower == "on") return true;
  if (lower == "0" || lower == "false" || lower == "no" || lower == "off") return false;
  throw Error(ErrorCode::invalid_argument, name, {.what = "not a yes or no", .got = *value, .want = "0 or 1"});
}

std::optional<long> env_int(const char* name, long low, long high) {
  const auto value = env(name);
  if (!value) return std::nullopt;
  long number = 0;
  const char* end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc() || stop != end || number < low || number > high)
    throw Error(
        ErrorCode::invalid_argument, name,
        {.what = "not a number in range", .got = *value, .want = std::to_string(low) + " to " + std::to_string(high)});
  return number;
}

}  // namespace anyaccel
