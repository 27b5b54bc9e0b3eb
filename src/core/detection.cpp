#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "anyaccel/sdk/registration.h"
#include "base/env.h"
#include "base/log.h"
#include "base/untrusted_text.h"
#include "core/device_type.h"
#include "core/plugins.h"
#include "core/registry.h"

namespace anyaccel {

namespace {

constexpr const char* kWhere = "get_accelerator";
constexpr const char* kSetByProgram = "set by set_accelerator()";

struct Chosen {
  std::recursive_mutex mutex;  // a backend's create function may query the registry
  bool choosing = false;
  Detection detection;
};

Chosen& state() {
  static auto* instance = new Chosen;  // accelerators are never destroyed either
  return *instance;
}

bool on_host(const sdk::Traits& traits) {
  return find_device_type(traits.device_type) == c10::kCPU;
}

std::string all_reasons(const Detection& detection) {
  std::string out;
  for (const auto& verdict : detection.backends)
    if (!verdict.available)
      out.append(out.empty() ? "" : "; ").append(verdict.name).append(": ").append(verdict.reason);
  return out;
}

const BackendEntry& find_entry(const std::vector<BackendEntry>& entries, const std::string& name,
                               const char* where) {
  std::vector<std::string> names;
  for (const auto& entry : entries) {
    if (entry.traits.name == name) return entry;
    names.push_back(entry.traits.name);
  }
  throw Error(ErrorCode::invalid_argument, where,
              {.what = "no accelerator with this name is registered",
               .got = quoted_text(name),
               .want = "one of " + joined(names),
               .hint = "check DS_ACCELERATOR, register the backend first, or put its plugin in a "
                       "folder listed in "
                       "ANYACCEL_PLUGIN_PATH" +
                       refused_plugins()});
}

/// Throws the same error as get_accelerator() for a named accelerator that cannot run.
void require_available(const BackendVerdict& verdict, const char* where) {
  if (verdict.available) return;
  throw Error(
      ErrorCode::unavailable, where,
      {.what =
           "the accelerator '" + verdict.name + "' was requested but cannot run: " + verdict.reason,
       .hint = "run `anyaccel report`, or unset DS_ACCELERATOR to use an available accelerator"});
}

/// Probes all backends and sets every field except the choice. Does not open plugins if
/// DS_ACCELERATOR names a different accelerator.
Detection probe_all(const std::vector<BackendEntry>& entries) {
  const auto named = env("DS_ACCELERATOR");
  Detection detection;
  for (const auto& entry : entries) {
    if (named && *named != entry.traits.name && is_plugin(entry.traits.name))
      detection.backends.push_back(
          {.name = entry.traits.name,
           .reason = "a plugin, not probed because DS_ACCELERATOR is " + *named});
    else
      detection.backends.push_back(probe_backend(entry));
  }
  return detection;
}

/// Returns the index of the entry to use. Throws the same errors as get_accelerator().
std::size_t decide(const std::vector<BackendEntry>& entries, Detection& detection) {
  if (const auto named = env("DS_ACCELERATOR")) {
    const auto index =
        static_cast<std::size_t>(&find_entry(entries, *named, kWhere) - entries.data());
    require_available(detection.backends[index], kWhere);
    detection.accelerator = *named;
    detection.reason = "selected by DS_ACCELERATOR; " + detection.backends[index].reason;
    return index;
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!detection.backends[i].available) continue;
    if (on_host(entries[i].traits) && env_flag("ANYACCEL_STRICT"))
      throw Error(ErrorCode::unavailable, kWhere,
                  {.what = "ANYACCEL_STRICT forbids falling back to the host, and no other "
                           "accelerator can run: " +
                           all_reasons(detection),
                   .hint = "unset ANYACCEL_STRICT, or name the accelerator with DS_ACCELERATOR"});
    detection.accelerator = entries[i].traits.name;
    detection.reason = "first backend with devices among " + std::to_string(entries.size()) +
                       " probed; " + detection.backends[i].reason;
    return i;
  }
  throw Error(ErrorCode::unavailable, kWhere,
              {.what = "no accelerator can run: " +
                       (entries.empty() ? "none is registered" : all_reasons(detection)),
               .hint = "run `anyaccel report`"});
}

std::shared_ptr<sdk::Backend> create(const BackendEntry& entry) {
  for (const auto& setting : entry.traits.start_environment)
    ::setenv(setting.name.c_str(), setting.value.c_str(), /*overwrite=*/0);
  auto backend = entry.create();
  if (!backend)
    throw Error(
        ErrorCode::internal, kWhere,
        {.what = "the create function of the backend '" + entry.traits.name + "' returned null"});
  return backend;
}

/// Accelerators are never destroyed, so that references to earlier ones stay valid. The caller
/// holds `Chosen::mutex`.
Accelerator& keep(std::shared_ptr<sdk::Backend> backend) {
  static auto& all = *new std::vector<Accelerator*>();
  all.reserve(all.size() + 1);
  all.push_back(new Accelerator(std::move(backend)));
  return *all.back();
}

Accelerator& install(std::shared_ptr<sdk::Backend> backend) {
  auto& accelerator = keep(std::move(backend));
  detail::chosen.store(&accelerator, std::memory_order_release);
  return accelerator;
}

/// Chooses a backend and creates it. A backend that cannot be created is marked unavailable, and
/// the next one is tried.
Accelerator& choose_locked(Chosen& chosen) {
  const auto entries = registered_entries();
  auto detection = probe_all(entries);
  for (;;) {
    const auto index = decide(entries, detection);
    try {
      auto& accelerator = install(create(entries[index]));
      chosen.detection = std::move(detection);
      return accelerator;
    } catch (const std::exception& error) {
      auto& verdict = detection.backends[index];
      verdict.available = false;
      verdict.reason = std::string("it could not be initialized: ") + error.what();
      log(LogLevel::warning,
          "accelerator '" + verdict.name + "' has devices, but " + verdict.reason);
    }
  }
}

}  // namespace

namespace detail {

std::atomic<Accelerator*> chosen{nullptr};

Accelerator& choose() {
  auto& state = anyaccel::state();
  const std::lock_guard lock(state.mutex);
  if (auto* accelerator = chosen.load(std::memory_order_acquire)) return *accelerator;
  if (state.choosing)
    throw Error(ErrorCode::invalid_state, kWhere,
                {.what = "called from a backend that is still being created",
                 .hint = "call the backend's own functions instead"});
  state.choosing = true;
  struct Reset {
    bool& flag;
    ~Reset() { flag = false; }
  } reset{state.choosing};
  return choose_locked(state);
}

}  // namespace detail

Detection detect() {
  Detection detection;
  try {
    const auto entries = registered_entries();
    detection = probe_all(entries);
    decide(entries, detection);
  } catch (const std::exception& error) {
    detection.accelerator.clear();
    detection.reason = error.what();
  }
  return detection;
}

Detection detection() {
  auto found = [] {
    auto& state = anyaccel::state();
    const std::lock_guard lock(state.mutex);
    return detail::chosen.load(std::memory_order_acquire) != nullptr ? state.detection
                                                                     : Detection{};
  }();
  if (found.accelerator.empty()) return detect();
  // The program set its accelerator before any backend was probed.
  if (found.backends.empty()) found.backends = detect().backends;
  return found;
}

void set_accelerator(std::shared_ptr<sdk::Backend> backend) {
  if (!backend)
    throw Error(
        ErrorCode::invalid_argument, "set_accelerator",
        {.what = "the backend is null", .want = "an object of a class derived from sdk::Backend"});
  auto& state = anyaccel::state();
  const std::lock_guard lock(state.mutex);
  const auto name = backend->traits().name;
  install(std::move(backend));
  state.detection.accelerator = name;
  state.detection.reason = kSetByProgram;
}

void set_accelerator(const std::string& name) {
  const auto entries = registered_entries();
  const auto& entry = find_entry(entries, name, "set_accelerator");
  require_available(probe_backend(entry), "set_accelerator");
  set_accelerator(create(entry));
}

void set_accelerator(Accelerator& accelerator) {
  auto& state = anyaccel::state();
  const std::lock_guard lock(state.mutex);
  detail::chosen.store(&accelerator, std::memory_order_release);
  state.detection.accelerator = accelerator.name();
  state.detection.reason = kSetByProgram;
}

Accelerator& accelerator_of(const std::string& name) {
  constexpr const char* kThis = "accelerator_of";
  static auto& made = *new std::map<std::string, Accelerator*>();
  const auto entries = registered_entries();
  auto& state = anyaccel::state();
  const std::lock_guard lock(state.mutex);
  if (auto* chosen = detail::chosen.load(std::memory_order_acquire);
      chosen != nullptr && chosen->name() == name)
    return *chosen;
  if (const auto found = made.find(name); found != made.end()) return *found->second;
  const auto& entry = find_entry(entries, name, kThis);
  require_available(probe_backend(entry), kThis);
  auto& accelerator = keep(create(entry));
  made.emplace(name, &accelerator);
  return accelerator;
}

bool is_current_accelerator_supported() {
  const auto& name = get_accelerator().name();
  for (const auto& known : registered_backends())
    if (known == name) return true;
  return false;
}

}  // namespace anyaccel
