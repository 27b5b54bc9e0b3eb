#include "backends/sim/check/suppressions.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "anyaccel/pattern.h"
#include "base/trimmed.h"
#include "base/untrusted_text.h"

namespace anyaccel::backends::sim::checking {

Suppressions Suppressions::parse(std::string_view text, const std::string& file) {
  Suppressions result;
  int number = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const auto colon = line.find(':');
    const auto kind = trimmed(line.substr(0, colon));
    const auto pattern =
        colon == std::string_view::npos ? std::string_view() : trimmed(line.substr(colon + 1));
    const auto all = all_kinds();
    const bool known = kind == "*" || std::any_of(all.begin(), all.end(),
                                                  [&](Kind each) { return kind == name(each); });
    if (!known || pattern.empty()) {
      std::string kinds = "*";
      for (const auto each : all) kinds.append(", ").append(name(each));
      throw Error(ErrorCode::invalid_argument, "SIM_CHECK_SUPPRESSIONS",
                  {.what = "line " + std::to_string(number) + " of " + quoted_text(file) +
                           " is not a valid suppression",
                   .got = quoted_text(line),
                   .want = "KIND:PATTERN, where KIND is one of " + kinds});
    }
    result.entries_.push_back(
        {.kind = kind == "*" ? "" : std::string(kind), .pattern = std::string(pattern)});
  }
  return result;
}

bool Suppressions::match(const Problem& problem) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    if (!entry.kind.empty() && entry.kind != name(problem.kind)) return false;
    if (matches_pattern(entry.pattern, problem.now.op) ||
        matches_pattern(entry.pattern, problem.before.op))
      return true;
    const auto part = "*" + entry.pattern + "*";
    const auto& stack = problem.now.stack;
    return std::any_of(stack.begin(), stack.end(),
                       [&](const std::string& line) { return matches_pattern(part, line); });
  });
}

}  // namespace anyaccel::backends::sim::checking
