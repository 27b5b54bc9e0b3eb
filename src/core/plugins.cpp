#include "core/plugins.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "anyaccel/error.h"
#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"
#include "base/env.h"
#include "base/log.h"
#include "core/limited_call.h"
#include "core/plugin_loader.h"
#include "core/registry.h"

namespace anyaccel {

namespace {

/// A plugin. Never destroyed.
struct Known {
  FoundPlugin found;
  bool registered = false;  ///< whether it provides the backend `name`; protected by Plugins::mutex
  std::mutex loading;       ///< held while the library is loaded; protects `loaded`
  LoadedPlugin loaded;

  std::mutex mutex;  // protects `state` and `reason`
  PluginState state = PluginState::found;
  std::string reason;

  void set(PluginState new_state, std::string why) {
    const std::lock_guard lock(mutex);
    state = new_state;
    reason = std::move(why);
  }
  PluginVerdict verdict() {
    const std::lock_guard lock(mutex);
    return {found.name, found.file.string(), found.library.string(), state, reason};
  }
};

struct Plugins {
  std::mutex mutex;  // protects both members; elements of `known` never move
  std::deque<Known> known;
  std::vector<std::string> searched;
};

Plugins& state() {
  static auto* instance =
      new Plugins;  // never destroyed, like the backends that plugins registered
  return *instance;
}

/// Logs a warning about a broken plugin, unless the user names an accelerator.
void warn(const Known& plugin, const std::string& why) {
  const auto named = env("DS_ACCELERATOR");
  // If the variable names this plugin, the error reports the reason. Otherwise the plugin is not
  // needed.
  if (named) return;
  log_once(LogLevel::warning, plugin.found.file.string(),
           "the plugin " + plugin.found.file.string() + " is skipped: " + why);
}

void reject(Known& plugin, const std::string& why) {
  plugin.set(PluginState::refused, why);
  warn(plugin, why);
}

/// Loads the library on the first call. A failure is permanent.
LoadedPlugin& load(Known& plugin) {
  const std::lock_guard lock(plugin.loading);
  const auto verdict = plugin.verdict();
  if (verdict.state == PluginState::refused)
    throw Error(ErrorCode::unavailable, "plugin", {.what = verdict.reason});
  if (verdict.state == PluginState::loaded) return plugin.loaded;
  try {
    const bool trial = !env("ANYACCEL_PLUGIN_TRIAL") || env_flag("ANYACCEL_PLUGIN_TRIAL");
    plugin.loaded = load_plugin(plugin.found, trial);
  } catch (const std::exception& error) {
    reject(plugin, error.what());
    throw;
  }
  plugin.set(PluginState::loaded, "its library is loaded and its backend is registered");
  return plugin.loaded;
}

/// Runs an open plugin's code within the time limit. A plugin that exceeds the limit is rejected.
template <typename Result>
Result bounded(Known& plugin, const std::string& what, const std::function<Result()>& work) {
  try {
    return call_with_limit<Result>("plugin", what, plugin_seconds(), work);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::timeout) reject(plugin, error.what());
    throw;
  }
}

sdk::Probe probe(Known& plugin) noexcept {
  try {
    const auto verdict = plugin.verdict();
    if (verdict.state == PluginState::refused)
      return {0, "its plugin was rejected: " + verdict.reason};
    // If the probe in the text file finds no devices, the library is not loaded.
    const auto cheap = probe_plugin(plugin.found.described.probe);
    if (cheap && cheap->device_count == 0) return *cheap;
    const auto& loaded = load(plugin);
    if (loaded.probe)
      return bounded<sdk::Probe>(plugin, "the probe of the plugin " + plugin.found.name,
                                 loaded.probe);
    return cheap.value_or(sdk::Probe{0, "neither its text file nor its library can count devices"});
  } catch (const std::exception& error) {
    return {0, std::string("its plugin was rejected: ") + error.what()};
  } catch (...) {
    return {0, "its probe threw something that is not a std::exception"};
  }
}

void register_as_backend(Known& plugin) {
  sdk::Traits traits = plugin.found.described.traits;
  traits.name = plugin.found.name;
  register_backend({.traits = std::move(traits),
                    .create =
                        [&plugin] {
                          return bounded<std::shared_ptr<sdk::Backend>>(
                              plugin, "the create function of the plugin " + plugin.found.name,
                              load(plugin).create);
                        },
                    .probe = [&plugin] { return probe(plugin); }});
  const std::lock_guard lock(state().mutex);
  plugin.registered = true;
}

void add(const FoundPlugin& found) {
  Known* plugin = nullptr;
  {
    const std::lock_guard lock(state().mutex);
    plugin = &state().known.emplace_back();
    plugin->found = found;
  }
  const auto names = registered_backends();
  const bool taken = std::find(names.begin(), names.end(), found.name) != names.end();
  if (found.problem.empty() && taken) {
    std::string owner = "another backend";
    for (const auto& other : plugins())
      if (other.name == found.name && other.path != found.file.string()) owner = other.path;
    return reject(*plugin, "the name '" + found.name + "' is already used by " + owner +
                               "; rename one of them");
  }
  if (found.problem.empty())
    plugin->set(PluginState::found,
                "its text file is compatible; its library has not been opened yet");
  else
    reject(*plugin, found.problem);
  // Also register a rejected plugin, so that a program that names the plugin gets the reason.
  if (!taken && is_plugin_name(found.name) && !is_reserved_name(found.name))
    register_as_backend(*plugin);
}

}  // namespace

const char* to_string(PluginState state) noexcept {
  switch (state) {
    case PluginState::found: return "found";
    case PluginState::loaded: return "loaded";
    case PluginState::refused: return "refused";
  }
  return "unknown";
}

void register_found_plugins(const std::vector<PluginFolder>& folders) noexcept {
  std::vector<PluginFolder> fresh;
  {
    const std::lock_guard lock(state().mutex);
    auto& searched = state().searched;
    for (const auto& folder : folders) {
      if (std::find(searched.begin(), searched.end(), folder.path.string()) != searched.end())
        continue;
      searched.push_back(folder.path.string());
      fresh.push_back(folder);
    }
  }
  for (const auto& found : find_plugins(fresh)) {
    try {
      add(found);
    } catch (const std::exception& error) {
      log(LogLevel::warning,
          "the plugin " + found.file.string() + " cannot be registered: " + error.what());
    }
  }
}

bool is_plugin(const std::string& name) {
  const std::lock_guard lock(state().mutex);
  return std::any_of(state().known.begin(), state().known.end(), [&](const Known& plugin) {
    return plugin.registered && plugin.found.name == name;
  });
}

std::string refused_plugins() {
  std::string out;
  for (const auto& plugin : plugins())
    if (plugin.state == PluginState::refused)
      out.append(out.empty() ? "; rejected plugins: " : "; ").append(plugin.reason);
  return out;
}

std::vector<PluginVerdict> plugins() {
  prepare_registry();
  std::vector<PluginVerdict> out;
  const std::lock_guard lock(state().mutex);
  for (auto& plugin : state().known) out.push_back(plugin.verdict());
  return out;
}

void add_plugin_folder(const std::string& folder) {
  prepare_registry();
  register_found_plugins({{folder}});
}

}  // namespace anyaccel
