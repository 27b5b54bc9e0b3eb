// A host file is read or refused; what was read filters can name all of it.
// sources: launch/hosts.cpp base/error.cpp
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/error.h"
#include "launch/hosts.h"

namespace {

/// As a filter that means all of it.
std::string filter_of(const std::vector<anyaccel::launch::Host>& hosts) {
  std::string out;
  for (const auto& host : hosts) {
    out += (out.empty() ? "" : "@") + host.name;
    for (std::size_t i = 0; i < host.slots.size(); ++i) out += (i == 0 ? ":" : ",") + host.slots[i];
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  using namespace anyaccel::launch;
  // The first line is a filter, the rest a file.
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto filter = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(filter.size() + 1, text.size()));
  try {
    const auto hosts = parse_host_file(text, "fuzz");
    std::size_t slots = 0;
    for (const auto& host : hosts) {
      if (host.name.empty() || host.slots.empty()) std::abort();
      slots += host.slots.size();
    }
    if (slots < 1000) {
      if (filter_hosts(hosts, filter_of(hosts), "").size() != hosts.size()) std::abort();
      filter_hosts(hosts, filter, "");
      for (const auto& host : filter_hosts(hosts, "", filter))
        if (host.slots.empty()) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
