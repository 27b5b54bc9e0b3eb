// Hosts and their slots, selected by host files, --include, --exclude, --num_nodes and
// --num_accelerators. The rules are DeepSpeed's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::launch {

/// One host. A slot is a device's number, or a name that the accelerator's visible-devices variable
/// takes, such as a UUID.
struct Host {
  std::string name;
  std::vector<std::string> slots;
  bool operator==(const Host&) const = default;
};

/// Returns "0", "1", ... for a host with `count` slots.
std::vector<std::string> numbered_slots(int count);

/// Parses a host file with lines `NAME slots=N`, or `NAME slots=A,B,...` for named slots. Blank
/// lines, lines that begin with #, and text after the slots (`max_slots=8`) are ignored. Filters
/// may name a host with slots=0. `name` is the file's name for messages. Throws `invalid_argument`
/// for an invalid line or a duplicate host, naming the line, and for a file without slots.
std::vector<Host> parse_host_file(std::string_view text, const std::string& name);

/// Parses hosts with their slots in the format of a filter, `a:0,1@b:0`. Slots keep their order.
/// Throws `invalid_argument`.
std::vector<Host> parse_hosts(std::string_view text);
/// Formats hosts for parse_hosts().
std::string format_hosts(const std::vector<Host>& hosts);

/// Reduces hosts to `include`, or removes `exclude`; at most one of the two may be non-empty. Both
/// have the form `NAME[:SLOT,...][@NAME...]`, where a name without slots means the whole host.
/// Hosts without slots are dropped. Hosts keep their order, and numbered slots are sorted. Throws
/// `invalid_argument` for unknown hosts and slots, and if nothing is left.
std::vector<Host> filter_hosts(std::vector<Host> hosts, std::string_view include,
                               std::string_view exclude);

/// Returns the first `count` hosts. Throws `invalid_argument` if there are fewer.
std::vector<Host> first_hosts(std::vector<Host> hosts, int count);

/// What to do if a host has fewer slots than requested.
enum class FewerSlots {
  fail,                        ///< throw: slots are devices
  fail_unless_oversubscribed,  ///< throw, naming --oversubscribe: slots are a host file's limit for
                               ///< ranks that compute on cores
  add,                         ///< add slot numbers: ranks that compute on cores can share them
};

/// Returns the first `count` slots of each host. Throws `invalid_argument` for a host with fewer,
/// unless `fewer` is `add`.
std::vector<Host> slots_of_each(std::vector<Host> hosts, int count, FewerSlots fewer);

/// Throws `invalid_argument` for a slot that is not a number. For accelerators without a
/// visible-devices variable, which cannot use slot names: a name is a typing error, such as
/// `slots=O4`. `accelerator` is for the message.
void check_numbered(const std::vector<Host>& hosts, const std::string& accelerator);

}  // namespace anyaccel::launch
