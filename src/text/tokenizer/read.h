// Reads the objects in tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/json.h"

namespace anyaccel::llm {

inline constexpr std::int64_t kMaxTokenId = (std::int64_t{1} << 31) - 1;

/// An object in tokenizer.json, with its path in the file for error messages.
class TokenizerNode : public SortedJsonReader {
 public:
  TokenizerNode(const SortedJson& object, const std::string& place)
      : SortedJsonReader(object, place) {}

  /// Returns "(none)" if the object has no type.
  std::string type() const { return string("type").value_or("(none)"); }
  /// Like string(), for a required key.
  std::string required_string(const char* key) const;
  bool flag(const char* key, bool otherwise) const { return boolean(key).value_or(otherwise); }
  /// Returns a string that must be exactly one character.
  std::string character(const char* key) const;
  TokenizerNode child(const char* key) const;
  /// Like children(), for a sequence of steps. Throws `unsupported` for more than kMaxSteps steps,
  /// including nested ones.
  std::vector<TokenizerNode> steps(const char* key) const;
  /// Returns the objects in a required array.
  std::vector<TokenizerNode> children(const char* key) const;

  [[noreturn]] void unsupported(const std::string& construct) const;
  [[noreturn]] void corrupt(const std::string& what) const;
};

}  // namespace anyaccel::llm
