// Errors that name the template's line, and limits that stop hostile templates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "anyaccel/error.h"

namespace anyaccel::llm::chat {

/// Throws `corrupt`. Also used for templates that Jinja rejects.
[[noreturn]] void syntax_error(int line, const std::string& what);
/// Throws `unsupported`. Used for constructs that Jinja may support but we do not.
[[noreturn]] void outside_subset(int line, const std::string& construct);
/// Throws `invalid_argument`. Used if the template cannot be rendered with the given variables.
[[noreturn]] void render_error(int line, const std::string& what);

/// Returns `text` quoted, and truncated for use in an error message.
std::string quoted(std::string_view text);

/// Resource limits for rendering a template. They are large enough for conversations of megabytes,
/// and stop a hostile template within seconds.
struct Limits {
  std::int64_t steps = 5'000'000;  ///< computed values; a long string counts as several
  std::int64_t bytes = std::int64_t{64} << 20;  ///< total size of created values, including output
  int depth = 300;  ///< nesting depth of blocks, expressions and macro calls
};

/// Tracks the remaining resources. Throws `unsupported` if a limit is exceeded.
class Budget {
 public:
  explicit Budget(const Limits& limits) : left_(limits) {}

  void step(std::int64_t count = 1) {
    if ((left_.steps -= count) < 0) exceeded("steps");
  }
  /// Charges for reading a string or list of `bytes` bytes.
  void read(std::size_t bytes) { step(1 + static_cast<std::int64_t>(bytes / 64)); }
  /// Charges for creating a value of `bytes` bytes.
  void make(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(left_.bytes)) exceeded("memory");
    left_.bytes -= static_cast<std::int64_t>(bytes);
    read(bytes);
  }

  /// Adds a level of depth during its lifetime.
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
