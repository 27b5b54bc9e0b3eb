// Regular expressions from tokenizer.json, matched with Oniguruma as in the `tokenizers` library.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anyaccel::llm {

/// Thread-safe after construction.
class Regex {
 public:
  /// Throws `corrupt` with Oniguruma's message for an invalid expression. Errors here and in
  /// find_all() name `source`, the expression's location.
  Regex(const std::string& pattern, const std::string& source);

  /// Returns the begin and end offsets of all non-overlapping matches in valid UTF-8, from left to
  /// right. Throws `invalid_argument` if backtracking on this text exceeds the time or memory
  /// limit.
  std::vector<std::pair<std::size_t, std::size_t>> find_all(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace anyaccel::llm
