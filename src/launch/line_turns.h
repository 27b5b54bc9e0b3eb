// Whole lines of several writers at one place. A program writes a line in pieces, as unbuffered Python does with the text and the end of
// each print(), and pieces of two ranks would mix.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::launch {

/// Decides whose text is written next. A writer that has begun a line keeps its turn until the line ends; what others write meanwhile
/// is held, but no longer than kPatience, so that a prompt or a progress bar stops nobody. Bytes are never changed, lost or added, and
/// each writer's stay in order. Time is told to it: nothing here waits.
class LineTurns {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPatience{1000};
  /// Neither is a longer line kept whole, nor more text of a writer held.
  static constexpr std::size_t kLongest = 1 << 20;

  enum class Mode {
    as_written,   ///< the beginning of a line is written at once
    whole_lines,  ///< it waits for its end, but no longer than kPatience: for output that passes through others' hands
    line_ends,  ///< writers have whole lines, ended by "\n" or "\r"; behind "\r" another writer's begins on a new line
  };
  LineTurns(std::size_t writers, Mode mode) : writers_(writers), mode_(mode) {}

  /// `writer` wrote this. Returns what is to be written now.
  std::string add(std::size_t writer, std::string_view text, Clock::time_point now);
  /// `writer` writes no more, so that its turn ends. What is held of it is not forgotten.
  std::string end(std::size_t writer, Clock::time_point now);
  /// What was held for too long.
  std::string overdue(Clock::time_point now);
  /// All that is held.
  std::string rest(Clock::time_point now);
  /// Milliseconds until overdue() has something, as poll() takes them: below 0 for never.
  int milliseconds(Clock::time_point now) const;
  /// True when so much of a writer's is held that no more should be read.
  bool is_full(std::size_t writer) const { return writers_[writer].held.size() >= kLongest; }

 private:
  static constexpr std::size_t kNobody = ~std::size_t{0};
  struct Writer {
    std::string held = {};
    Clock::time_point since = {};  ///< when the oldest of it came
  };
  void write(std::size_t writer, std::size_t bytes, Clock::time_point now, std::string& out);
  std::size_t ready(std::size_t writer) const;
  void write_waiting(Clock::time_point now, std::string& out);
  std::size_t oldest() const;

  std::vector<Writer> writers_;
  Mode mode_;
  std::size_t turn_ = kNobody;  ///< who has begun a line
  std::size_t last_ = kNobody;  ///< who wrote last
  char last_byte_ = '\n';
  std::size_t line_ = 0;  ///< bytes of the line that is begun
};

}  // namespace anyaccel::launch
