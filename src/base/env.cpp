#include "base/env.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"

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
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (lower == "1" || lower == "true" || lower == "yes" || lower == "on") return true;
  if (lower == "0" || lower == "false" || lower == "no" || lower == "off") return false;
  throw Error(ErrorCode::invalid_argument, name,
              {.what = "not a boolean", .got = *value, .want = "0 or 1"});
}

std::optional<long> env_int(const char* name, long low, long high) {
  const auto value = env(name);
  if (!value) return std::nullopt;
  long number = 0;
  const char* end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc() || stop != end || number < low || number > high)
    throw Error(ErrorCode::invalid_argument, name,
                {.what = "invalid number",
                 .got = *value,
                 .want = std::to_string(low) + " to " + std::to_string(high)});
  return number;
}

std::optional<std::int64_t> env_bytes(const char* name) {
  const auto text = env(name);
  if (!text) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const double number = std::strtod(text->c_str(), &end);
  const std::string unit = end;
  const double factor = unit.empty()  ? 1
                        : unit == "K" ? 1024
                        : unit == "M" ? 1048576
                        : unit == "G" ? 1073741824
                                      : 0;
  if (end == text->c_str() || errno != 0 || factor == 0 || !(number >= 0) || number * factor > 9e18)
    throw Error(ErrorCode::invalid_argument, name,
                {.what = "invalid size",
                 .got = quoted_text(*text),
                 .want = "a number of bytes, optionally with the suffix K, M or G"});
  return static_cast<std::int64_t>(number * factor);
}

int started_ranks() {
  return static_cast<int>(env_int("WORLD_SIZE", 1, std::numeric_limits<int>::max()).value_or(1));
}

}  // namespace anyaccel
