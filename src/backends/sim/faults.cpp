#include "backends/sim/faults.h"

#include <charconv>
#include <cstring>
#include <sstream>
#include <string_view>

#include "anyaccel/error.h"
#include "backends/sim/hash.h"
#include "base/untrusted_text.h"

namespace anyaccel::backends::sim {

namespace {

[[noreturn]] void fail(const std::string& text) {
  throw Error(
      ErrorCode::invalid_argument, "SIM_FAULTS",
      {.what = "invalid fault",
       .got = quoted_text(text),
       .want = "KIND[=VALUE]WHEN[/DEVICE] with KIND alloc (or oom), kernel, lost or slow and WHEN "
               "@N, @N+ or %P, such as "
               "alloc@3, kernel=mm@2, lost@100/1 or slow=20ms%0.1",
       .hint = "docs/reference/environment.md has the grammar"});
}

template <typename Number>
Number read_number(const std::string& text, const std::string& whole) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || !(number >= Number{})) fail(whole);
  return number;
}

void read_kind(const std::string& text, const std::string& whole, Fault& fault) {
  const auto equals = text.find('=');
  const auto kind = text.substr(0, equals);
  const auto value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (kind == "alloc" || kind == "oom")
    fault.kind = FaultKind::alloc;
  else if (kind == "kernel")
    fault.kind = FaultKind::kernel;
  else if (kind == "lost")
    fault.kind = FaultKind::lost;
  else if (kind == "slow")
    fault.kind = FaultKind::slow;
  else
    fail(whole);
  const bool takes_value = fault.kind == FaultKind::kernel || fault.kind == FaultKind::slow;
  if (value.empty() ? fault.kind == FaultKind::slow || equals != std::string::npos : !takes_value)
    fail(whole);
  if (fault.kind == FaultKind::kernel) fault.op = value;
  if (fault.kind == FaultKind::slow) fault.delay_us = read_microseconds("SIM_FAULTS", value);
}

Fault parse_fault(const std::string& whole) {
  Fault fault;
  auto text = whole;
  if (const auto slash = text.find('/'); slash != std::string::npos) {
    fault.device = read_number<int>(text.substr(slash + 1), whole);
    text.resize(slash);
  }
  const auto when = text.find_first_of("@%");
  if (when == std::string::npos) fail(whole);
  read_kind(text.substr(0, when), whole, fault);
  auto number = text.substr(when + 1);
  if (text[when] == '%') {
    fault.probability = read_number<double>(number, whole);
    if (fault.probability <= 0 || fault.probability > 1) fail(whole);
    return fault;
  }
  if (!number.empty() && number.back() == '+') {
    fault.onwards = true;
    number.pop_back();
  }
  fault.at = read_number<std::uint64_t>(number, whole);
  if (fault.at == 0) fail(whole);
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(const std::string& text) {
  std::vector<Fault> faults;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) faults.push_back(parse_fault(word));
  return faults;
}

FaultCounter::FaultCounter(const std::vector<Fault>& faults, int device, std::uint64_t seed)
    : seed_(mix(seed, static_cast<std::uint64_t>(device))) {
  for (const auto& fault : faults)
    if (fault.device < 0 || fault.device == device)
      watched_.push_back(std::make_unique<Watched>(fault));
}

bool FaultCounter::happens(Watched& watched) {
  const auto count = ++watched.count;
  const auto& fault = watched.fault;
  if (fault.at != 0) return fault.onwards ? count >= fault.at : count == fault.at;
  const auto draw = mix(seed_, mix(count, static_cast<std::uint64_t>(fault.kind)));
  return static_cast<double>(draw >> 11) * 0x1p-53 < fault.probability;
}

bool FaultCounter::allocation() {
  bool fails = false;
  for (auto& watched : watched_)
    if (watched->fault.kind == FaultKind::alloc) fails |= happens(*watched);
  return fails;
}

LaunchFault FaultCounter::launch(const char* op) {
  LaunchFault result;
  const char* colons = std::strstr(op, "::");
  const std::string_view full = colons == nullptr ? op : colons + 2;
  const auto name = full.substr(0, full.find('.'));  // "fill_" matches all its overloads
  for (auto& watched : watched_) {
    const auto& fault = watched->fault;
    if (fault.kind == FaultKind::alloc ||
        (!fault.op.empty() && fault.op != name && fault.op != full) || !happens(*watched))
      continue;
    if (fault.kind == FaultKind::kernel) result.fails = true;
    if (fault.kind == FaultKind::lost) result.lost = true;
    result.delay_us += fault.delay_us;
  }
  return result;
}

}  // namespace anyaccel::backends::sim
