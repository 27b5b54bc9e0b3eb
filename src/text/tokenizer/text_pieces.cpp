#include "text/tokenizer/text_pieces.h"

#include <algorithm>
#include <array>

namespace anyaccel::llm {

namespace {

enum class Kind : unsigned char { letter, digit, space, newline, mark };

constexpr Kind kind_of(unsigned char c) {
  if (c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return Kind::letter;
  if (c >= '0' && c <= '9') return Kind::digit;
  if (c == '\n' || c == '\r') return Kind::newline;
  return c == ' ' || (c >= '\t' && c <= '\r') ? Kind::space : Kind::mark;
}

constexpr std::array<Kind, 256> kKinds = [] {
  std::array<Kind, 256> kinds{};
  for (std::size_t c = 0; c < kinds.size(); ++c) kinds[c] = kind_of(static_cast<unsigned char>(c));
  return kinds;
}();

/// Scans a text for runs of characters of the same kind.
class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}
  bool is(std::size_t at, Kind kind) const { return at < text_.size() && kKinds[byte(at)] == kind; }
  bool is_space(std::size_t at) const { return is(at, Kind::space) || is(at, Kind::newline); }
  std::size_t skip(std::size_t at, Kind kind) const {
    while (is(at, kind)) ++at;
    return at;
  }

 private:
  unsigned char byte(std::size_t at) const { return static_cast<unsigned char>(text_[at]); }
  std::string_view text_;
};

std::size_t space_length(std::string_view text, const Scan& scan) {
  std::size_t end = 0;
  std::size_t after_newline = 0;
  for (; scan.is_space(end); ++end) {
    if (scan.is(end, Kind::newline)) after_newline = end + 1;
  }
  if (after_newline > 0) return after_newline;
  // The last space belongs to the next word.
  return end < text.size() && end > 1 ? end - 1 : end;
}

}  // namespace

std::size_t piece_length(std::string_view text) {
  const Scan scan(text);
  if (scan.is(0, Kind::letter)) return scan.skip(0, Kind::letter);
  if (scan.is(0, Kind::digit)) return std::min<std::size_t>(scan.skip(0, Kind::digit), 3);
  const bool may_lead = !scan.is(0, Kind::newline);
  if (may_lead && scan.is(1, Kind::letter)) return scan.skip(1, Kind::letter);
  const std::size_t marks = text[0] == ' ' ? 1 : 0;
  if (scan.is(marks, Kind::mark)) return scan.skip(scan.skip(marks, Kind::mark), Kind::newline);
  return space_length(text, scan);
}

}  // namespace anyaccel::llm
