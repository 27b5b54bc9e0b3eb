// Hosts and their slots: what host files, --include, --exclude, --num_nodes and --num_accelerators
// say, by DeepSpeed's rules.
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

/// "0", "1", ... for a host of `count` slots.
std::vector<std::string> numbered_slots(int count);

/// Reads a host file: a line `NAME slots=N`, or `NAME slots=A,B,...` for slots that have names,
/// each; blank lines and those that begin with # say nothing, nor does what stands behind the slots
/// (`max_slots=8`). A host with slots=0 is one that filters may name. `name` is the file's, for
/// messages. Throws `invalid_argument` naming the line: for a line of another form, a host that is
/// there twice, and a file without slots.
std::vector<Host> parse_host_file(std::string_view text, const std::string& name);

/// Reads hosts with their slots in the form of a filter, `a:0,1@b:0`; slots keep their order.
/// Throws `invalid_argument`.
std::vector<Host> parse_hosts(std::string_view text);
/// Writes them so.
std::string format_hosts(const std::vector<Host>& hosts);

/// Reduces hosts to `include`, or removes `exclude`; at most one of the two may be non-empty. Both
/// have the form `NAME[:SLOT,...][@NAME...]`, where a name without slots means the whole host.
/// Hosts without slots are dropped. Hosts keep their order, and numbered slots are sorted. Throws
/// `invalid_argument` for unknown hosts and slots, and if nothing is left.
std::vector<Host> filter_hosts(std::vector<Host> hosts, std::string_view include,
                               std::string_view exclude);

/// The first `count` hosts. Throws `invalid_argument` when there are fewer.
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
