// Converts the bytes of tokens to displayable text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::llm {

/// Collects bytes and passes them on as complete UTF-8 characters. Holds back text that may be the
/// beginning of a stop string. Invalid bytes become U+FFFD. Not thread-safe.
class TextStream {
 public:
  TextStream(std::vector<std::string> stop, std::function<void(std::string_view)> sink);

  /// Returns true if a stop string is complete. text() then ends before it, and push() must not be
  /// called again.
  bool push(std::string_view bytes);
  /// Passes on the text that was held back.
  void finish();
  /// All text passed on so far.
  const std::string& text() const noexcept { return text_; }

 private:
  void emit(std::size_t count);
  std::vector<std::string> stop_;
  std::function<void(std::string_view)> sink_;
  std::string pending_, text_;
};

/// Replaces each byte that is not part of a valid UTF-8 character with U+FFFD.
std::string valid_utf8(std::string_view bytes);

/// Length of `bytes` without a truncated character at the end.
std::size_t complete_utf8(std::string_view bytes);

}  // namespace anyaccel::llm
