#include "launch/hosts.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "anyaccel/error.h"
#include "base/trimmed.h"
#include "base/untrusted_text.h"

namespace anyaccel::launch {

namespace {

/// A larger count is probably a typo. The limit also bounds the length of the list.
constexpr int kMaxSlots = 4096;

[[noreturn]] void fail(const std::string& what, const std::string& got = {},
                       const std::string& want = {}, const std::string& hint = {}) {
  throw Error(ErrorCode::invalid_argument, "launch",
              {.what = what, .got = got, .want = want, .hint = hint});
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Parses a slot; "007" is slot 7. Returns nullopt if the text is not a valid slot.
std::optional<std::string> slot_of(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text.find_first_of(" \t@,") != std::string_view::npos) return std::nullopt;
  if (!is_number(text)) return std::string(text);
  const auto digit = std::min(text.find_first_not_of('0'), text.size() - 1);
  return std::string(text.substr(digit));
}

/// Sorts slots by number if all of them are numbers; otherwise keeps their order. DeepSpeed does
/// the same.
void sort_slots(std::vector<std::string>& slots) {
  if (std::all_of(slots.begin(), slots.end(), is_number))
    std::stable_sort(slots.begin(), slots.end(), [](const std::string& a, const std::string& b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out.append(out.empty() ? "" : ",").append(word);
  return out;
}

bool has_no_slot(const Host& host) { return host.slots.empty(); }

/// Parses the text after `slots=`.
std::optional<std::vector<std::string>> slots_of(std::string_view text) {
  text = text.substr(0, text.find_first_of(kBlanks));
  if (is_number(text)) {
    int count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc{} || count > kMaxSlots) return std::nullopt;
    return numbered_slots(count);
  }
  // Reject misspelled numbers such as "4abc", "-4", "two" and "O4". Real device names, such as
  // UUIDs, contain other characters.
  const bool several = text.find(',') != std::string_view::npos;
  if (text.empty() ||
      (!several && std::string_view("0123456789-+").find(text.front()) != std::string_view::npos) ||
      (!several && std::all_of(text.begin(), text.end(), is_letter_or_digit)))
    return std::nullopt;
  std::vector<std::string> out;
  for (const auto part : split(text, ',')) {
    auto slot = slot_of(part);
    if (!slot || std::find(out.begin(), out.end(), *slot) != out.end()) return std::nullopt;
    out.push_back(std::move(*slot));
  }
  return out;
}

/// Parses a filter. A host that is named several times gets the slots of all its entries. Hosts are
/// in the order of their first entries.
std::vector<Host> parse_filter(std::string_view text) {
  std::vector<Host> out;
  for (const auto part : split(text, '@')) {
    const auto colon = part.find(':');
    const auto name = trimmed(part.substr(0, colon));
    if (name.empty())
      fail("a filter entry has no host name", "'" + std::string(text) + "'",
           "HOST[:SLOT,...][@HOST...]");
    auto host =
        std::find_if(out.begin(), out.end(), [&](const Host& one) { return one.name == name; });
    if (host == out.end()) host = out.insert(out.end(), Host{std::string(name), {}});
    if (colon == std::string_view::npos) continue;
    for (const auto word : split(part.substr(colon + 1), ',')) {
      auto slot = slot_of(word);
      if (!slot)
        fail("a filter entry has an empty slot", "'" + std::string(part) + "'",
             "HOST:SLOT[,SLOT...]");
      if (std::find(host->slots.begin(), host->slots.end(), *slot) == host->slots.end())
        host->slots.push_back(std::move(*slot));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> numbered_slots(int count) {
  std::vector<std::string> out;
  out.reserve(static_cast<std::size_t>(std::max(count, 0)));
  for (int i = 0; i < count; ++i) out.push_back(std::to_string(i));
  return out;
}

std::vector<Host> parse_host_file(std::string_view text, const std::string& name) {
  std::vector<Host> hosts;
  std::unordered_set<std::string> known;
  int number = 0;
  for (const auto raw : split(text, '\n')) {
    ++number;
    const auto line = trimmed(raw);
    if (line.empty() || line.front() == '#') continue;
    const auto where = name + ":" + std::to_string(number);
    const auto blank = std::min(line.find_first_of(kBlanks), line.size());
    const auto rest = trimmed(line.substr(blank));
    constexpr std::string_view kSlots = "slots=";
    const auto slots =
        rest.starts_with(kSlots) ? slots_of(rest.substr(kSlots.size())) : std::nullopt;
    if (!slots)
      fail(where + " is not a valid host-file line", quoted_text(line),
           "`NAME slots=N`, or `NAME slots=A,B,...` for named slots");
    std::string host(line.substr(0, blank));
    if (host.find_first_of("@:") != std::string::npos)
      fail(where + " has a host name that filters cannot contain", quoted_text(host),
           "a name without @ or :");
    // Reject this name: it becomes an argument to ssh and other programs, which would parse it as
    // an option.
    if (host.starts_with('-'))
      fail(where + " has a host name that looks like an option", quoted_text(host),
           "a name that does not begin with -");
    if (!known.insert(host).second)
      fail(where + " repeats a host", quoted_text(host), "one line per host");
    hosts.push_back({std::move(host), *slots});
  }
  if (std::all_of(hosts.begin(), hosts.end(), has_no_slot))
    fail("the host file " + name + " has no host with slots", {}, "lines `NAME slots=N`");
  return hosts;
}

std::vector<Host> parse_hosts(std::string_view text) { return parse_filter(text); }

std::string format_hosts(const std::vector<Host>& hosts) {
  std::string out;
  for (const auto& host : hosts)
    out.append(out.empty() ? "" : "@").append(host.name).append(":").append(joined(host.slots));
  return out;
}

std::vector<Host> filter_hosts(std::vector<Host> hosts, std::string_view include,
                               std::string_view exclude) {
  if (include.empty() && exclude.empty()) {
    std::erase_if(hosts, has_no_slot);
    return hosts;
  }
  const bool keep = !include.empty();
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < hosts.size(); ++i) index.emplace(hosts[i].name, i);
  std::vector<Host> out = hosts;
  if (keep)
    for (auto& host : out) host.slots.clear();
  for (auto& asked : parse_filter(keep ? include : exclude)) {
    sort_slots(asked.slots);
    const auto found = index.find(asked.name);
    if (found == index.end())
      fail(std::string(keep ? "--include" : "--exclude") + " names an unknown host",
           "'" + asked.name + "'",
           hosts.size() == 1 ? "'" + hosts.front().name + "'" : "a host from the host file");
    const auto& there = hosts[found->second].slots;
    for (const auto& slot : asked.slots)
      if (std::find(there.begin(), there.end(), slot) == there.end())
        fail("host " + asked.name + " does not have this slot", "'" + slot + "'",
             "one of " + joined(there));
    auto& left = out[found->second].slots;
    if (keep)
      left = asked.slots.empty() ? there : asked.slots;
    else if (asked.slots.empty())
      left.clear();
    else
      std::erase_if(left, [&](const auto& slot) {
        return std::find(asked.slots.begin(), asked.slots.end(), slot) != asked.slots.end();
      });
  }
  std::erase_if(out, has_no_slot);
  if (out.empty())
    fail(keep ? "--include names hosts without slots" : "--exclude leaves no slot",
         "'" + std::string(keep ? include : exclude) + "'", "at least one remaining slot");
  return out;
}

std::vector<Host> first_hosts(std::vector<Host> hosts, int count) {
  if (static_cast<std::size_t>(count) > hosts.size())
    fail("--num_nodes exceeds the number of hosts", std::to_string(count),
         "at most " + std::to_string(hosts.size()),
         hosts.size() == 1 ? "pass a host file with more hosts (--hostfile)" : "");
  hosts.resize(static_cast<std::size_t>(count));
  return hosts;
}

std::vector<Host> slots_of_each(std::vector<Host> hosts, int count, FewerSlots fewer) {
  const auto wanted = static_cast<std::size_t>(count);
  for (auto& host : hosts) {
    if (host.slots.size() >= wanted)
      host.slots.resize(wanted);
    else if (fewer == FewerSlots::add && count <= kMaxSlots)
      host.slots = numbered_slots(count);
    else
      fail("--num_accelerators exceeds the slots of " + host.name, std::to_string(count),
           "at most " + std::to_string(host.slots.size()),
           fewer == FewerSlots::fail_unless_oversubscribed
               ? "add slots to the host file, or pass --oversubscribe"
               : "");
  }
  return hosts;
}

void check_numbered(const std::vector<Host>& hosts, const std::string& accelerator) {
  for (const auto& host : hosts)
    for (const auto& slot : host.slots)
      if (!is_number(slot))
        fail("host " + host.name + " has a named slot, but " + accelerator +
                 " has only numbered devices",
             quoted_text(slot), "slots=N");
}

}  // namespace anyaccel::launch
