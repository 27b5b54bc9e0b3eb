// Regular expressions of tokenizer.json, by Oniguruma as the `tokenizers` library uses it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anyaccel::llm {

/// Thread-safe once made.
class Regex {
 public:
  /// Throws `corrupt` with Oniguruma's message for what is not an expression. `source` is its place, for errors here and
  /// in find_all().
  Regex(const std::string& pattern, const std::string& source);

  /// Begin and end of all matches in valid UTF-8, left to right, without overlap. Throws `invalid_argument`
  /// if the expression backtracks beyond its limits of time and memory on this text.
  std::vector<std::pair<std::size_t, std::size_t>> find_all(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace anyaccel::llm
