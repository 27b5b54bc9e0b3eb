// Messages from a worker to its parent. Each message consists of a type letter, a length and the
// text.
#pragma once

#include <optional>
#include <string>

namespace anyaccel::conformance {

struct Message {
  enum Kind : char { subject = 'S', begin = 'B', end = 'E', refused = 'R' };
  char kind = 0;
  std::string text;
};

/// Writes a message. Returns false if the other end of the pipe is closed.
bool send(int file, char kind, const std::string& text) noexcept;

/// Reads messages from a pipe.
class Receiver {
 public:
  enum class State { message, timeout, closed };
  explicit Receiver(int file) : file_(file) {}
  /// Waits at most `seconds` for the next message.
  State receive(Message& message, double seconds);

 private:
  bool take(Message& message);
  int file_;
  std::string buffer_;
};

/// Joins strings with a separator and splits the result again. The strings must not contain the
/// separator.
class Fields {
 public:
  Fields() = default;
  explicit Fields(const std::string& text);
  Fields& add(const std::string& field);
  /// Returns the next field, or an empty string after the last one.
  std::string next();
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
  std::size_t place_ = 0;
};

}  // namespace anyaccel::conformance
