// Bytes of tokens as text that may be shown.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::llm {

/// Collects bytes and passes them on in whole UTF-8 characters, holding back what may be the
/// beginning of a stop string. Bytes that are no UTF-8 become U+FFFD in what is passed on. Not
/// thread-safe.
class TextStream {
 public:
  TextStream(std::vector<std::string> stop, std::function<void(std::string_view)> sink);

  /// Returns true when a stop string is complete: text() then ends in front of it and nothing more
  /// may be pushed.
  bool push(std::string_view bytes);
  /// Passes on what was held back.
  void finish();
  /// All text so far, as passed on.
  const std::string& text() const noexcept { return text_; }

 private:
  void emit(std::size_t count);
  std::vector<std::string> stop_;
  std::function<void(std::string_view)> sink_;
  std::string pending_, text_;
};

/// Replaces each byte that is part of no valid UTF-8 character by U+FFFD.
std::string valid_utf8(std::string_view bytes);

/// Length of `bytes` without an unfinished character at its end.
std::size_t complete_utf8(std::string_view bytes);

}  // namespace anyaccel::llm
