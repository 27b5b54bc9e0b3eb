// A list of suppressions is accepted or rejected, and matching a problem terminates.
// sources: backends/sim/check/suppressions.cpp backends/sim/check/problem.cpp
// sources: base/error.cpp base/untrusted_text.cpp
#include "backends/sim/check/suppressions.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "anyaccel/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  using namespace anyaccel::backends::sim::checking;
  const Problem problem{.kind = Kind::freed_in_use,
                        .what = {},
                        .now = {.op = "aten::mm", .stream = {}, .shape = {}, .stack = {"#0 main"}},
                        .before = {.op = "aten::copy_", .stream = {}, .shape = {}}};
  try {
    const auto list = Suppressions::parse({reinterpret_cast<const char*>(data), size}, "file");
    if (list.match(problem) && list.empty()) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
