#include "launch/line_interleaver.h"

#include <algorithm>

namespace anyaccel::launch {

std::string LineInterleaver::add(std::size_t writer, std::string_view text, Clock::time_point now) {
  std::string out;
  if (text.empty()) return out;
  auto& mine = writers_[writer];
  if (mine.held.empty()) mine.since = now;
  mine.held.append(text);
  if (turn_ == kNobody || turn_ == writer || line_ > kLongest) write_waiting(now, out);
  return out;
}

std::string LineInterleaver::end(std::size_t writer, Clock::time_point now) {
  std::string out;
  if (turn_ != kNobody && turn_ != writer) return out;
  write(writer, writers_[writer].held.size(), now, out);
  turn_ = kNobody;
  write_waiting(now, out);
  return out;
}

std::string LineInterleaver::overdue(Clock::time_point now) {
  std::string out;
  for (;;) {
    const auto first = oldest();
    if (first == kNobody || now < writers_[first].since + kPatience) break;
    write(first, writers_[first].held.size(), now, out);
  }
  if (turn_ == kNobody) write_waiting(now, out);
  return out;
}

std::string LineInterleaver::rest(Clock::time_point now) {
  std::string out;
  for (std::size_t first;
       (first = turn_ != kNobody && !writers_[turn_].held.empty() ? turn_ : oldest()) != kNobody;)
    write(first, writers_[first].held.size(), now, out);
  return out;
}

int LineInterleaver::milliseconds(Clock::time_point now) const {
  const auto first = oldest();
  if (first == kNobody) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(writers_[first].since + kPatience - now);
  return static_cast<int>(
      std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, kPatience.count()));
}

/// Writes the first `bytes` bytes of the text held for `writer`.
void LineInterleaver::write(std::size_t writer, std::size_t bytes, Clock::time_point now,
                            std::string& out) {
  if (bytes == 0) return;
  auto& held = writers_[writer].held;
  if (mode_ == Mode::line_ends && last_byte_ == '\r' && last_ != writer) out += '\n';
  const auto line_end = held.rfind('\n', bytes - 1);
  line_ =
      line_end == std::string::npos ? (last_ == writer ? line_ : 0) + bytes : bytes - 1 - line_end;
  out.append(held, 0, bytes);
  last_byte_ = held[bytes - 1];
  last_ = writer;
  turn_ = last_byte_ == '\n' || mode_ == Mode::line_ends ? kNobody : writer;
  held.erase(0, bytes);
  writers_[writer].since = now;
}

/// Returns the number of held bytes that `writer` may write if no other writer is in the middle of
/// a line.
std::size_t LineInterleaver::ready(std::size_t writer) const {
  const auto& held = writers_[writer].held;
  if (mode_ != Mode::whole_lines || held.size() >= kLongest) return held.size();
  const auto end = held.find_last_of("\n\r");
  return end == std::string::npos ? 0 : end + 1;
}

/// Writes held text, oldest first, until a writer is in the middle of a line.
void LineInterleaver::write_waiting(Clock::time_point now, std::string& out) {
  if (turn_ != kNobody && line_ <= kLongest) write(turn_, ready(turn_), now, out);
  std::vector<bool> seen(writers_.size());
  while (turn_ == kNobody || line_ > kLongest) {
    std::size_t next = kNobody;
    for (std::size_t i = 0; i < writers_.size(); ++i)
      if (!seen[i] && !writers_[i].held.empty() &&
          (next == kNobody || writers_[i].since < writers_[next].since))
        next = i;
    if (next == kNobody) return;
    seen[next] = true;
    write(next, ready(next), now, out);
  }
}

std::size_t LineInterleaver::oldest() const {
  std::size_t out = kNobody;
  for (std::size_t i = 0; i < writers_.size(); ++i)
    if (!writers_[i].held.empty() && (out == kNobody || writers_[i].since < writers_[out].since))
      out = i;
  return out;
}

}  // namespace anyaccel::launch
