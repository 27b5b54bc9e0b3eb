// Combines the output of several writers without splitting their lines. Programs may write a line
// in chunks, as unbuffered Python does with the text and the newline of each print(). Without this
// class, chunks from two ranks would interleave.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::launch {

/// Decides which writer's text is written next. After a writer has begun a line, only its text is
/// written until the line ends. Text from other writers is held for at most kPatience, so that a
/// prompt or a progress bar does not block them. Bytes are never changed or lost, and each writer's
/// bytes stay in order. Never waits: callers pass the current time.
class LineInterleaver {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPatience{1000};
  /// Maximum length of a line that is kept intact, and of the text held per writer.
  static constexpr std::size_t kLongest = 1 << 20;

  enum class Mode {
    as_written,  ///< write the beginning of a line immediately
    /// Hold the beginning of a line until the line ends, for at most kPatience. Meant for output
    /// that another program forwards.
    whole_lines,
    /// Expect whole lines that end with "\n" or "\r". If the last line ended with "\r" and a
    /// different writer is next, insert a newline.
    line_ends,
  };
  LineInterleaver(std::size_t writers, Mode mode) : writers_(writers), mode_(mode) {}

  /// Adds text of `writer`. Returns the text to write now.
  std::string add(std::size_t writer, std::string_view text, Clock::time_point now);
  /// Marks the end of `writer`'s output, so that other writers need not wait for the end of its
  /// last line. Text that cannot be written now is held. Returns the text to write now.
  std::string end(std::size_t writer, Clock::time_point now);
  /// Returns the text that has been held for kPatience.
  std::string overdue(Clock::time_point now);
  /// Returns all held text.
  std::string rest(Clock::time_point now);
  /// Returns the milliseconds until overdue() returns text, as a poll() timeout: negative means
  /// never.
  int milliseconds(Clock::time_point now) const;
  /// True if the text held for a writer has reached its limit, so that no more should be read from
  /// it.
  bool is_full(std::size_t writer) const { return writers_[writer].held.size() >= kLongest; }

 private:
  static constexpr std::size_t kNobody = ~std::size_t{0};
  struct Writer {
    std::string held = {};
    Clock::time_point since = {};  ///< arrival time of the oldest held byte
  };
  void write(std::size_t writer, std::size_t bytes, Clock::time_point now, std::string& out);
  std::size_t ready(std::size_t writer) const;
  void write_waiting(Clock::time_point now, std::string& out);
  std::size_t oldest() const;

  std::vector<Writer> writers_;
  Mode mode_;
  std::size_t turn_ = kNobody;  ///< writer that is in the middle of a line
  std::size_t last_ = kNobody;  ///< writer of the last byte
  char last_byte_ = '\n';
  std::size_t line_ = 0;  ///< length of the unfinished line
};

}  // namespace anyaccel::launch
