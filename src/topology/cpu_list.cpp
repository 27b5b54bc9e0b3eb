#include "topology/cpu_list.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "anyaccel/error.h"

namespace anyaccel::topology {

namespace {

constexpr int kHighestCpu = 1 << 20;  // prevents "0-4000000000" from exhausting memory

[[noreturn]] void fail(std::string_view text) {
  throw Error(ErrorCode::invalid_argument, "cpu list",
              {.what = "invalid CPU list",
               .got = std::string(text),
               .want = "numbers and ranges, such as 0-3,8"});
}

int number(std::string_view part, std::string_view whole) {
  int value = 0;
  const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || stop != part.data() + part.size() || value < 0 || value > kHighestCpu)
    fail(whole);
  return value;
}

}  // namespace

CpuList parse_cpu_list(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  CpuList cpus;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const auto part = rest.substr(0, comma);
    const auto dash = part.find('-');
    const int first = number(part.substr(0, dash), text);
    const int last = dash == std::string_view::npos ? first : number(part.substr(dash + 1), text);
    if (last < first) fail(text);
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) fail(text);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string format_cpu_list(const CpuList& cpus) {
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    if (!out.empty()) out += ',';
    out += std::to_string(cpus[i]);
    if (end > i) out += '-' + std::to_string(cpus[end]);
    i = end + 1;
  }
  return out;
}

CpuList intersect(const CpuList& a, const CpuList& b) {
  CpuList out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

}  // namespace anyaccel::topology
