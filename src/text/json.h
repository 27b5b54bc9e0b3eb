// Reads untrusted JSON with bounded size and depth. Every error names the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "anyaccel/export.h"

namespace anyaccel::llm {

using Json = nlohmann::ordered_json;
/// JSON with sorted keys and logarithmic lookup, for objects with many keys, such as vocabularies.
using SortedJson = nlohmann::json;

/// Limits for JSON text. Input that exceeds them is `corrupt`. The defaults are for a model's
/// configuration files.
struct JsonLimits {
  std::size_t max_bytes = std::size_t{32} << 20;
  int max_depth = 64;
};

/// Limits for files that list a model's tokens or tensors.
inline constexpr JsonLimits kLargeJson{.max_bytes = std::size_t{256} << 20};

/// Parses `text`. Throws `corrupt` naming `source` unless the text is a single JSON value within
/// the limits and without duplicate keys.
ANYACCEL_API Json parse_json(std::string_view text, const std::string& source,
                             const JsonLimits& limits = {});

/// Reads a file that contains a JSON object. Throws `not_found`, `io` or `corrupt`.
ANYACCEL_API Json read_json_object(const std::filesystem::path& path,
                                   const JsonLimits& limits = {});
SortedJson read_sorted_json_object(const std::filesystem::path& path,
                                   const JsonLimits& limits = {});
/// Like read_sorted_json_object(), for text in memory.
SortedJson parse_sorted_json_object(std::string_view text, const std::string& source,
                                    const JsonLimits& limits = {});

/// Typed access to an object's values. Throws `corrupt`, naming the file and the key, for wrong
/// types and values out of range. A null value counts as absent.
template <typename J>
class BasicJsonReader {
 public:
  BasicJsonReader(const J& object, std::string source)
      : object_(object), source_(std::move(source)) {}

  bool has(const std::string& key) const;
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t low,
                                      std::int64_t high) const;
  std::optional<double> number(const std::string& key) const;
  std::optional<bool> boolean(const std::string& key) const;
  std::optional<std::string> string(const std::string& key) const;
  /// Returns the value, which must be an object, or null if absent.
  const J* object(const std::string& key) const;
  /// Returns the value, which must be an array, or null if absent.
  const J* array(const std::string& key) const;
  /// Like integer(), for a required key.
  std::int64_t required_integer(const std::string& key, std::int64_t low, std::int64_t high) const;
  const std::string& source() const { return source_; }

 private:
  const J* find(const std::string& key) const;
  [[noreturn]] void fail(const std::string& key, const J& value, const char* want) const;
  const J& object_;
  std::string source_;
};

extern template class ANYACCEL_API BasicJsonReader<Json>;
extern template class BasicJsonReader<SortedJson>;
using JsonReader = BasicJsonReader<Json>;
using SortedJsonReader = BasicJsonReader<SortedJson>;

}  // namespace anyaccel::llm
