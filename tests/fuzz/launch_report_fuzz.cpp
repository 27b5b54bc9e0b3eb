// Failure reports, and nothing else, are removed from output that is read from a pipe, no matter
// how the reads split the output.
// sources: launch/line_interleaver.cpp launch/terminal.cpp launch/output.cpp base/log.cpp
// sources: base/error.cpp base/untrusted_text.cpp base/env.cpp base/fork_safe.cpp
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "launch/output.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using anyaccel::launch::ReportFilter;
  if (size == 0) return 0;
  // The first byte determines the size of the chunks into which the rest is split.
  const std::size_t piece = data[0] + std::size_t{1};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  ReportFilter whole;
  auto at_once = whole.add(text);
  at_once += whole.rest();
  ReportFilter cut;
  std::string in_pieces;
  for (std::size_t at = 0; at < text.size(); at += piece)
    in_pieces += cut.add(text.substr(at, piece));
  in_pieces += cut.rest();
  const bool same_report = whole.report().has_value() == cut.report().has_value() &&
                           (!whole.report() || (whole.report()->rank == cut.report()->rank &&
                                                whole.report()->status == cut.report()->status));
  if (whole.take_started() != cut.take_started()) std::abort();
  if (in_pieces != at_once || !same_report || whole.log_failed() != cut.log_failed()) std::abort();
  if (text.find("launch report") == std::string_view::npos && in_pieces != text) std::abort();
  return 0;
}
