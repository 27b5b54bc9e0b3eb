// Reading JSON that somebody else wrote: bounded in size and depth, and every complaint names the
// file.
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
/// Keys in alphabetic order with logarithmic lookup, for objects with many keys such as
/// vocabularies.
using SortedJson = nlohmann::json;

/// Limits for JSON text. Deeper or larger input is `corrupt`. The defaults are for a model's
/// settings.
struct JsonLimits {
  std::size_t max_bytes = std::size_t{32} << 20;
  int max_depth = 64;
};

/// For files that list a model's tokens or tensors.
inline constexpr JsonLimits kLargeJson{.max_bytes = std::size_t{256} << 20};

/// Parses `text`. Throws `corrupt` naming `source` for anything that is not one JSON value, is
/// beyond the limits, or has a key twice in one object.
ANYACCEL_API Json parse_json(std::string_view text, const std::string& source,
                             const JsonLimits& limits = {});

/// The JSON object in a file. Throws `not_found`, `io` or `corrupt`.
ANYACCEL_API Json read_json_object(const std::filesystem::path& path,
                                   const JsonLimits& limits = {});
SortedJson read_sorted_json_object(const std::filesystem::path& path,
                                   const JsonLimits& limits = {});
/// Like read_sorted_json_object(), for a text.
SortedJson parse_sorted_json_object(std::string_view text, const std::string& source,
                                    const JsonLimits& limits = {});

/// An object's values by type. Wrong types and values out of range are `corrupt`, naming file and
/// key; a key whose value is null counts as absent.
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
  /// The value, which must be an object; nothing when absent.
  const J* object(const std::string& key) const;
  /// The value, which must be an array; nothing when absent.
  const J* array(const std::string& key) const;
  /// integer() of a key that must be there.
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
