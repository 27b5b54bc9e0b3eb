// Known problems that the checker does not report. Does not use torch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/sim/check/problem.h"

namespace anyaccel::backends::sim::checking {

/// A list of lines `KIND:PATTERN`. A problem is suppressed if a line has its kind, or `*`, and the
/// pattern matches an op of the problem or a line of its stack. In a pattern, `*` matches any text;
/// a pattern for a line of the stack may match a part of it. Empty lines and lines that begin with
/// `#` are ignored.
class Suppressions {
 public:
  /// Throws `invalid_argument` with the number of an invalid line.
  static Suppressions parse(std::string_view text, const std::string& file);

  bool empty() const noexcept { return entries_.empty(); }
  bool match(const Problem& problem) const;

 private:
  struct Entry {
    std::string kind;  ///< empty: any
    std::string pattern;
  };
  std::vector<Entry> entries_;
};

}  // namespace anyaccel::backends::sim::checking
