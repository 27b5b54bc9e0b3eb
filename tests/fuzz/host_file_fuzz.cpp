// A host file is accepted or rejected. Filters can name every host and slot of an accepted file.
// A filter is accepted or rejected, too.
// sources: launch/hosts.cpp base/error.cpp base/untrusted_text.cpp
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "anyaccel/error.h"
#include "launch/hosts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  using namespace anyaccel::launch;
  // The first line is a filter; the rest is a host file.
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto filter = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(filter.size() + 1, text.size()));
  try {
    parse_hosts(filter);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
  }
  try {
    const auto hosts = filter_hosts(parse_host_file(text, "fuzz"), "", "");
    std::size_t slots = 0;
    for (const auto& host : hosts) {
      if (host.name.empty() || host.slots.empty()) std::abort();
      slots += host.slots.size();
    }
    if (slots < 1000) {
      // The hosts, written as a filter, must select everything.
      if (parse_hosts(format_hosts(hosts)) != hosts) std::abort();
      if (filter_hosts(hosts, format_hosts(hosts), "").size() != hosts.size()) std::abort();
      filter_hosts(hosts, filter, "");
      for (const auto& host : filter_hosts(hosts, "", filter))
        if (host.slots.empty()) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
