// Hosts and their slots, selected by host files, --include, --exclude, --num_nodes and
// --num_accelerators. The rules are the same as DeepSpeed's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::launch {

/// One host. A slot is a device number, or a name that the accelerator's visible-devices variable
/// accepts, such as a UUID.
struct Host {
  std::string name;
  std::vector<std::string> slots;
  bool operator==(const Host&) const = default;
};

/// Returns "0", "1", ... for a host with `count` slots.
std::vector<std::string> numbered_slots(int count);

/// Parses a host file with lines `NAME slots=N`, or `NAME slots=A,B,...` for named slots. Blank
/// lines, lines that begin with #, and text after the slots (`max_slots=8`) are ignored. Hosts with
/// slots=0 are kept, because filters may name them. `name` is the file's name in error messages.
/// Throws `invalid_argument`, naming the line, for an invalid line or a duplicate host, and also
/// for a file without any slots.
std::vector<Host> parse_host_file(std::string_view text, const std::string& name);

/// Parses hosts and their slots in filter syntax, `a:0,1@b:0`. Slots keep their order. Throws
/// `invalid_argument`.
std::vector<Host> parse_hosts(std::string_view text);
/// Formats hosts as text for parse_hosts().
std::string format_hosts(const std::vector<Host>& hosts);

/// Keeps only the hosts and slots in `include`, or removes those in `exclude`; at least one of the
/// two must be empty. Both have the form `NAME[:SLOT,...][@NAME...]`, where a name without slots
/// selects all slots of the host. Hosts that have no slots left are dropped. Hosts keep their
/// order, and numbered slots are sorted. Throws `invalid_argument` for unknown hosts and slots, and
/// if nothing is left.
std::vector<Host> filter_hosts(std::vector<Host> hosts, std::string_view include,
                               std::string_view exclude);

/// Returns the first `count` hosts. Throws `invalid_argument` if there are fewer.
std::vector<Host> first_hosts(std::vector<Host> hosts, int count);

/// What to do if a host has fewer slots than requested.
enum class FewerSlots {
  fail,  ///< throw, because slots are devices
  /// Throw and suggest --oversubscribe, because the slots in a host file limit the number of ranks
  /// that compute on cores.
  fail_unless_oversubscribed,
  add,  ///< add slot numbers, because ranks that compute on cores can share them
};

/// Returns the first `count` slots on each host. If a host has fewer, throws `invalid_argument`
/// unless `fewer` is `add`.
std::vector<Host> slots_of_each(std::vector<Host> hosts, int count, FewerSlots fewer);

/// Throws `invalid_argument` for a slot that is not a number. Used for accelerators that have no
/// visible-devices variable and therefore cannot use slot names: a name such as `slots=O4` is a
/// typo. `accelerator` is used in the error message.
void check_numbered(const std::vector<Host>& hosts, const std::string& accelerator);

}  // namespace anyaccel::launch
