// What stops a template: errors with its line, and limits that end hostile ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "anyaccel/error.h"

namespace anyaccel::llm::chat {

/// `corrupt`: Jinja refuses such a template too.
[[noreturn]] void syntax_error(int line, const std::string& what);
/// `unsupported`: Jinja may know `construct`, we don't.
[[noreturn]] void outside_subset(int line, const std::string& construct);
/// `invalid_argument`: the template cannot be applied to these variables.
[[noreturn]] void render_error(int line, const std::string& what);

/// Any text, cut to a length that fits into a message, in quotes.
std::string quoted(std::string_view text);

/// What rendering one template may cost. Enough for conversations of megabytes; a hostile template
/// ends within seconds.
struct Limits {
  std::int64_t steps = 5'000'000;  ///< values computed; long texts that are read count as several
  std::int64_t bytes = std::int64_t{64} << 20;  ///< of all values made, output included
  int depth = 300;                              ///< of nested blocks, expressions and macro calls
};

/// Counts down the limits. Throws `unsupported` where one is reached.
class Budget {
 public:
  explicit Budget(const Limits& limits) : left_(limits) {}

  void step(std::int64_t count = 1) {
    if ((left_.steps -= count) < 0) exceeded("steps");
  }
  /// Reading a text or list of so many bytes.
  void read(std::size_t bytes) { step(1 + static_cast<std::int64_t>(bytes / 64)); }
  /// Making a value of so many bytes.
  void make(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(left_.bytes)) exceeded("memory");
    left_.bytes -= static_cast<std::int64_t>(bytes);
    read(bytes);
  }

  /// One level deeper while it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (--budget_.left_.depth < 0) {
        ++budget_.left_.depth;
        exceeded("depth");
      }
    }
    ~Level() { ++budget_.left_.depth; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  [[noreturn]] static void exceeded(const char* what);
  Limits left_;
};

}  // namespace anyaccel::llm::chat
