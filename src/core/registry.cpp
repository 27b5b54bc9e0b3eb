#include "core/registry.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "anyaccel/error.h"
#include "base/log.h"
#include "base/untrusted_text.h"
#include "core/built_backends.h"
#include "core/plugins.h"
#include "core/present_device.h"

namespace anyaccel {

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<BackendEntry> entries;
  std::map<std::string, sdk::Probe> answers;  ///< set by answer_probe()
};

Registry& registry() {
  static auto* instance =
      new Registry;  // never destroyed, because backends outlive static destruction
  return *instance;
}

void register_built_once() {
  static std::once_flag once;
  static thread_local bool inside = false;  // register_backend() below re-enters this function
  if (inside) return;
  std::call_once(once, [] {
    inside = true;
    struct Reset {
      ~Reset() { inside = false; }
    } const reset;
    register_built_backends();
    register_found_plugins(plugin_search_path());
  });
}

void insert_by_priority(std::vector<BackendEntry>& entries, BackendEntry entry) {
  const auto place = std::find_if(entries.begin(), entries.end(), [&](const BackendEntry& other) {
    return other.traits.priority < entry.traits.priority;
  });
  entries.insert(place, std::move(entry));
}

struct Finders {
  // Recursive, because a finder may query the registry. Other threads wait for the finders.
  std::recursive_mutex mutex;
  std::atomic<bool> any{false};
  std::vector<std::function<void()>> waiting;
};

Finders& finders() {
  static auto* instance = new Finders;
  return *instance;
}

/// Adds the device that another package has registered with torch, unless a backend is registered
/// for it. Checked at each query, because the package may be imported at any time.
void add_present_device(std::vector<BackendEntry>& entries, std::optional<BackendEntry> present) {
  if (!present) return;
  for (const auto& entry : entries)
    if (entry.traits.name == present->traits.name ||
        entry.traits.device_type == present->traits.device_type)
      return;
  insert_by_priority(entries, std::move(*present));
}

void run_finders() {
  auto& state = finders();
  if (!state.any.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(state.mutex);
  while (!state.waiting.empty()) {
    const auto find = std::move(state.waiting.back());
    state.waiting.pop_back();
    try {
      find();
    } catch (const std::exception& error) {
      log(LogLevel::warning, std::string("skipping backends: ") + error.what());
    } catch (...) {
      log(LogLevel::warning,
          "skipping backends: a finder threw something that is not a std::exception");
    }
  }
  state.any.store(false, std::memory_order_release);
}

}  // namespace

void add_backend_finder(std::function<void()> find) {
  auto& state = finders();
  const std::lock_guard lock(state.mutex);
  state.waiting.push_back(std::move(find));
  state.any.store(true, std::memory_order_release);
}

BackendEntry registered_backend(const std::string& name) {
  const auto entries = registered_entries();
  for (const auto& entry : entries)
    if (entry.traits.name == name) return entry;
  throw Error(ErrorCode::invalid_argument, "registered_backend",
              {.what = "no backend with this name is registered",
               .got = quoted_text(name),
               .want = "one of " + joined(registered_backends())});
}

void prepare_registry() { register_built_once(); }

std::string joined(const std::vector<std::string>& command) {
  std::string out;
  for (const auto& word : command) out.append(out.empty() ? "" : ", ").append(word);
  return out;
}

void register_backend(BackendEntry entry) {
  register_built_once();
  if (entry.traits.name.empty() || !entry.create)
    throw Error(ErrorCode::invalid_argument, "register_backend",
                {.what = "an entry requires a name and a create function",
                 .got = "name '" + entry.traits.name + "'"});
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  for (const auto& other : state.entries)
    if (other.traits.name == entry.traits.name)
      throw Error(ErrorCode::invalid_argument, "register_backend",
                  {.what = "a backend with this name is already registered",
                   .got = entry.traits.name,
                   .want = "a new name"});
  insert_by_priority(state.entries, std::move(entry));
}

void answer_probe(const std::string& name, sdk::Probe answer) {
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  state.answers.insert_or_assign(name, std::move(answer));
}

std::vector<BackendEntry> registered_entries() {
  register_built_once();
  run_finders();
  // May load a library, whose initialization may query the registry.
  auto present = present_device();
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  auto entries = state.entries;
  add_present_device(entries, std::move(present));
  for (auto& entry : entries)
    if (const auto found = state.answers.find(entry.traits.name); found != state.answers.end())
      entry.probe = [answer = found->second] { return answer; };
  return entries;
}

std::vector<std::string> registered_backends() {
  std::vector<std::string> names;
  for (const auto& entry : registered_entries()) names.push_back(entry.traits.name);
  return names;
}

BackendVerdict probe_backend(const BackendEntry& entry) noexcept {
  BackendVerdict verdict{.name = entry.traits.name};
  try {
    sdk::Probe probe{.device_count = 0, .reason = "it has no probe"};
    if (entry.probe) {
      probe = entry.probe();
    } else if (entry.traits.probe != nullptr) {
      probe = entry.traits.probe();
    }
    verdict.available = probe.device_count > 0;
    verdict.device_count = probe.device_count;
    verdict.reason = std::move(probe.reason);
  } catch (const std::exception& error) {
    verdict.reason = std::string("its probe failed: ") + error.what();
  } catch (...) {
    verdict.reason = "its probe failed";
  }
  return verdict;
}

}  // namespace anyaccel
