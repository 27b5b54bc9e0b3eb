#include "launch/accelerator.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "anyaccel/error.h"
#include "base/built_traits.h"
#include "base/env.h"
#include "base/plugin/search.h"
#include "launch/hosts.h"

namespace anyaccel::launch {

namespace {

constexpr const char* kWhere = "launch";

struct Candidate {
  sdk::Traits traits;
  bool on_cores;
  std::optional<sdk::Probe> probe;  ///< empty if only torch can detect devices
};

/// Probes a backend. Built-in backends are probed only when needed, because some probes open vendor
/// libraries.
std::optional<sdk::Probe> probe_of(const Candidate& candidate) {
  if (candidate.probe || candidate.traits.probe == nullptr) return candidate.probe;
  return candidate.traits.probe();
}

/// If the simulator stands in for a backend, replaces that backend's probe with the simulator's.
void add_simulated_devices(std::vector<Candidate>& all) {
  const auto name = env("SIM_STANDS_IN_FOR");
  if (!name || simulator_traits() == nullptr) return;
  const auto replaced = std::find_if(all.begin(), all.end(), [&](const auto& each) {
    return each.traits.name == *name || each.traits.device_type == *name;
  });
  if (replaced == all.end()) return;
  replaced->probe = simulator_traits()->probe();
  replaced->probe->reason.insert(0, "SIM_STANDS_IN_FOR is set: ");
}

std::vector<Candidate> candidates() {
  std::vector<Candidate> out;
  for (const auto* traits : built_traits())
    out.push_back({*traits, traits == host_traits(), std::nullopt});
  for (const auto& plugin : find_plugins(plugin_search_path())) {
    if (!plugin.problem.empty()) continue;
    out.push_back({plugin.described.traits, false, probe_plugin(plugin.described.probe)});
    out.back().traits.name = plugin.name;
  }
  add_simulated_devices(out);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.traits.priority > b.traits.priority;
  });
  return out;
}

JobAccelerator made(Candidate candidate, const std::optional<sdk::Probe>& probe, std::string why) {
  JobAccelerator out{std::move(candidate.traits), candidate.on_cores, std::nullopt, std::move(why)};
  if (probe) {
    out.devices = probe->device_count;
    out.reason += "; " + probe->reason;
  }
  return out;
}

JobAccelerator find_named(const std::string& name, std::vector<Candidate> all, bool elsewhere) {
  std::string names;
  for (auto& candidate : all) {
    if (candidate.traits.name != name) {
      names.append(names.empty() ? "" : ", ").append(candidate.traits.name);
      continue;
    }
    const auto probe = probe_of(candidate);
    if (probe && probe->device_count == 0 && !elsewhere)
      throw Error(ErrorCode::unavailable, kWhere,
                  {.what = "the accelerator '" + name +
                           "', selected by DS_ACCELERATOR, has no devices here: " + probe->reason,
                   .hint = "unset DS_ACCELERATOR to use an available accelerator"});
    return made(std::move(candidate), probe, "selected by DS_ACCELERATOR");
  }
  throw Error(ErrorCode::invalid_argument, kWhere,
              {.what = "no accelerator has this name",
               .got = "'" + name + "'",
               .want = "one of " + names,
               .hint = "check DS_ACCELERATOR, or add its plugin's folder to ANYACCEL_PLUGIN_PATH"});
}

/// Returns the entries of the first visible-devices variable that is set, or nullopt if none is.
std::optional<std::vector<std::string>> visible_entries(const JobAccelerator& accelerator) {
  auto variables = accelerator.traits.visible_devices_envs;
  const auto& aliases = accelerator.traits.visible_devices_aliases;
  variables.insert(variables.end(), aliases.begin(), aliases.end());
  for (const auto& variable : variables) {
    const auto list = env(variable.c_str());
    if (!list) continue;
    std::vector<std::string> out;
    for (std::size_t begin = 0; begin <= list->size();) {
      const auto end = std::min(list->find(',', begin), list->size());
      auto entry = list->substr(begin, end - begin);
      entry.erase(0, entry.find_first_not_of(' '));
      entry.erase(entry.find_last_not_of(' ') + 1);
      // Stop at the first invalid entry, as the vendor libraries do.
      if (entry.empty() || entry.front() == '-') break;
      out.push_back(std::move(entry));
      begin = end + 1;
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace

JobAccelerator find_accelerator(const std::optional<std::string>& named, bool elsewhere) {
  auto all = candidates();
  if (named) return find_named(*named, std::move(all), elsewhere);
  std::string reasons;
  for (auto& candidate : all) {
    const auto probe = probe_of(candidate);
    if (candidate.on_cores) {
      if (!elsewhere && env_flag("ANYACCEL_STRICT"))
        throw Error(
            ErrorCode::unavailable, kWhere,
            {.what =
                 "ANYACCEL_STRICT forbids the fallback to the host, and no other accelerator has "
                 "devices here: " +
                 reasons,
             .hint = "unset ANYACCEL_STRICT, or name the accelerator with DS_ACCELERATOR"});
      return made(std::move(candidate), probe, "no other accelerator has devices here");
    }
    if (probe && probe->device_count > 0)
      return made(std::move(candidate), probe, "the first accelerator with devices on this host");
    if (probe)
      reasons.append(reasons.empty() ? "" : "; ")
          .append(candidate.traits.name + ": " + probe->reason);
  }
  throw Error(ErrorCode::unavailable, kWhere,
              {.what = "no accelerator has devices here: " + reasons});
}

std::vector<std::string> visible_slots(const JobAccelerator& accelerator) {
  if (auto entries = visible_entries(accelerator)) {
    if (accelerator.devices && entries->size() > static_cast<std::size_t>(*accelerator.devices))
      entries->resize(static_cast<std::size_t>(*accelerator.devices));
    if (!entries->empty()) return *entries;
  }
  if (!accelerator.devices)
    throw Error(
        ErrorCode::unavailable, kWhere,
        {.what = "the devices of '" + accelerator.traits.name + "' cannot be counted without torch",
         .hint = "pass the number of ranks with --num_accelerators"});
  return numbered_slots(*accelerator.devices);
}

std::vector<std::string> visible_names(const JobAccelerator& accelerator,
                                       const std::vector<std::string>& slots) {
  const auto entries = visible_entries(accelerator);
  if (!entries) return slots;
  std::vector<std::string> out;
  for (const auto& slot : slots) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(slot.data(), slot.data() + slot.size(), index);
    if (error != std::errc{} || end != slot.data() + slot.size()) {
      out.push_back(slot);  // a device name, not an index
    } else if (index < entries->size()) {
      out.push_back((*entries)[index]);
    } else {
      throw Error(
          ErrorCode::invalid_argument, kWhere,
          {.what = "the host file has more slots than " +
                   accelerator.traits.visible_devices_envs.front() + " leaves visible on this host",
           .got = "slot " + slot,
           .want = "a slot below " + std::to_string(entries->size())});
    }
  }
  return out;
}

}  // namespace anyaccel::launch
