// Regular expressions of tokenizer.json, matched with Oniguruma as in the `tokenizers` library.
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

  /// Returns begin and end of all matches in valid UTF-8, from left to right, without overlap.
  /// Throws `invalid_argument` if backtracking on this text exceeds the limits of time and memory.
  std::vector<std::pair<std::size_t, std::size_t>> find_all(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace anyaccel::llm
