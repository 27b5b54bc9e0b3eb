#include "launch/core_list.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "anyaccel/error.h"

namespace anyaccel::launch {

namespace {

constexpr int kHighestCpu = (1 << 16) - 1;  // eight times Linux's maximum number of CPUs; prevents
                                            // "0-4000000000" from exhausting memory

[[noreturn]] void fail(const std::string& what, std::string_view whole) {
  throw Error(ErrorCode::invalid_argument, "--bind_core_list",
              {.what = what,
               .got = "\"" + std::string(whole) + "\"",
               .want = "CPU numbers, ranges and ranges with a stride, such as 0-3,8,16-31:2",
               .hint = "run `anyaccel topology` to see this machine's CPU numbers"});
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

int number(std::string_view part, std::string_view whole) {
  int value = 0;
  const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  const bool digits =
      error == std::errc() && stop == part.data() + part.size() && part.front() != '-';
  if (!digits || value > kHighestCpu)
    fail("\"" + std::string(part) + "\" is not a CPU number", whole);
  return value;
}

}  // namespace

topology::CpuList parse_core_list(std::string_view text) {
  std::vector<bool> named;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    more = comma != std::string_view::npos;
    const auto part = trim(rest.substr(0, comma));
    if (more) rest.remove_prefix(comma + 1);
    const auto colon = part.find(':');
    const auto range = part.substr(0, colon);
    const auto dash = range.find('-');
    const bool one = dash == std::string_view::npos;
    const int first = number(range.substr(0, dash), text);
    const int last = one ? first : number(range.substr(dash + 1), text);
    if (last < first) fail("the range \"" + std::string(range) + "\" ends before it begins", text);
    if (colon != std::string_view::npos && one)
      fail("a stride requires a range: \"" + std::string(part) + "\"", text);
    const int stride = colon == std::string_view::npos ? 1 : number(part.substr(colon + 1), text);
    if (stride == 0) fail("the stride in \"" + std::string(part) + "\" is 0", text);
    named.resize(std::max(named.size(), static_cast<std::size_t>(last) + 1));
    for (int cpu = first; cpu <= last; cpu += stride) named[static_cast<std::size_t>(cpu)] = true;
  }
  topology::CpuList cpus;
  for (std::size_t cpu = 0; cpu < named.size(); ++cpu)
    if (named[cpu]) cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

}  // namespace anyaccel::launch
