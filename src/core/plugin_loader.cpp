#include "core/plugin_loader.h"

#include <array>
#include <utility>

#include "anyaccel/error.h"
#include "anyaccel/sdk/plugin.h"
#include "base/dynamic_library.h"
#include "base/env.h"
#include "base/untrusted_text.h"
#include "core/described_builder.h"
#include "core/plugin_trial.h"

namespace anyaccel {

namespace sdk {

void Plugin::add_backend(std::function<std::shared_ptr<Backend>()> create,
                         std::function<Probe()> probe) {
  if (!create || create_)
    throw Error(ErrorCode::invalid_argument, "Plugin::add_backend",
                {.what = create_ ? "a plugin can register only one backend"
                                 : "the create function is empty",
                 .got = traits_.name});
  create_ = std::move(create);
  probe_ = std::move(probe);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved from, through emplace_back.
void Plugin::add_op_builder(const std::string& class_name, OpBuilderFactory factory) {
  bool known = find_registered_op(traits_.name, class_name) != nullptr;
  for (const auto& other : op_builders_) known = known || other.first == class_name;
  if (known || class_name.empty() || !factory)
    throw Error(ErrorCode::invalid_argument, "Plugin::add_op_builder",
                {.what = known ? "this op builder is already registered"
                               : "a class name and a factory are required",
                 .got = class_name});
  op_builders_.emplace_back(class_name, std::move(factory));
}

/// Gives the loader access to the private members of a Plugin.
struct PluginAccess {
  static Plugin make(const FoundPlugin& found) {
    return {found.described.traits,
            std::filesystem::canonical(found.library).parent_path().string()};
  }
  static LoadedPlugin take(Plugin& plugin) {
    // Do this after all checks, so that a rejected plugin does not register anything.
    for (auto& [class_name, factory] : plugin.op_builders_)
      register_op_builder(plugin.traits_.name, class_name, std::move(factory));
    return {.create = std::move(plugin.create_), .probe = std::move(plugin.probe_)};
  }
  static bool has_backend(const Plugin& plugin) { return plugin.create_ != nullptr; }
};

}  // namespace sdk

namespace {

constexpr const char* kWhere = "load_plugin";

[[noreturn]] void fail(ErrorCode code, const FoundPlugin& plugin, const std::string& why) {
  throw Error(code, kWhere, {.what = plugin.library.string() + ": " + printable_text(why, 2000)});
}

const char* text_or_empty(const char* text) { return text == nullptr ? "" : text; }

/// Checks the library itself. The text file was checked before the library was loaded, but it may
/// describe a different library.
void check_descriptor(const FoundPlugin& found, const anyaccel_plugin& descriptor) {
  // The fields of version 1 of the ABI. Later fields are read only if struct_size includes them.
  constexpr std::size_t kNeeded =
      offsetof(anyaccel_plugin, register_plugin) + sizeof(descriptor.register_plugin);
  if (descriptor.struct_size < kNeeded || descriptor.struct_size > (1U << 16))
    fail(ErrorCode::version_mismatch, found,
         "its descriptor has " + std::to_string(descriptor.struct_size) +
             " bytes, but AnyAccel requires at least " + std::to_string(kNeeded) +
             "; rebuild the plugin with the CMake package of the installed AnyAccel");
  const BuildIdentity theirs{.abi = descriptor.abi_version,
                             .anyaccel = text_or_empty(descriptor.anyaccel_version),
                             .libtorch = text_or_empty(descriptor.libtorch_version),
                             .compiler_abi = text_or_empty(descriptor.compiler_abi),
                             .sanitizer = sanitizer_name(descriptor.sanitizer)};
  if (const auto problem = identity_mismatch(theirs, own_identity()); !problem.empty())
    fail(ErrorCode::version_mismatch, found, problem);
  if (found.name != text_or_empty(descriptor.name))
    fail(ErrorCode::version_mismatch, found,
         "its name is '" + std::string(text_or_empty(descriptor.name)) +
             "', but its text file names '" + found.name + "'; the two files do not match");
  if (descriptor.register_plugin == nullptr)
    fail(ErrorCode::version_mismatch, found, "its descriptor has no registration function");
}

LoadedPlugin load(const FoundPlugin& found) {
  // Never unload the library, because it may register kernels with torch.
  const DynamicLibrary library(found.library.string(), DynamicLibrary::Unload::never);
  const auto* descriptor = library.find<const anyaccel_plugin*>(ANYACCEL_PLUGIN_SYMBOL);
  if (descriptor == nullptr)
    fail(ErrorCode::unavailable, found,
         "it is not a plugin: it has no symbol " ANYACCEL_PLUGIN_SYMBOL
         "; add ANYACCEL_PLUGIN(...) to one of its sources");
  check_descriptor(found, *descriptor);
  auto plugin = sdk::PluginAccess::make(found);
  std::array<char, 1024> message{};
  if (descriptor->register_plugin(reinterpret_cast<anyaccel_plugin_host*>(&plugin), message.data(),
                                  message.size()) != 0) {
    message.back() = '\0';
    fail(ErrorCode::unavailable, found,
         std::string("its registration function failed: ") + message.data());
  }
  if (!sdk::PluginAccess::has_backend(plugin))
    fail(ErrorCode::unavailable, found, "it did not register a backend");
  return sdk::PluginAccess::take(plugin);
}

}  // namespace

long plugin_seconds() { return env_int("ANYACCEL_PLUGIN_TIMEOUT", 0, 1'000'000).value_or(30); }

LoadedPlugin load_plugin(const FoundPlugin& plugin, bool trial) {
  if (trial) {
    const auto work = [&] {
      begin_trial_stage("opening it");
      const auto loaded = load(plugin);
      if (!loaded.probe) return;
      begin_trial_stage("its probe");
      try {
        loaded.probe();
      } catch (...) {
        // Ignore the error: the real probe call reports it. The trial only detects hangs and
        // crashes.
      }
    };
    const auto problem = run_in_trial(work, static_cast<double>(plugin_seconds()));
    // Errors from load() already begin with this prefix and contain the library's path.
    const auto prefix = std::string("[") + kWhere + "] ";
    if (problem.rfind(prefix, 0) == 0)
      throw Error(ErrorCode::unavailable, kWhere, {.what = problem.substr(prefix.size())});
    if (!problem.empty()) fail(ErrorCode::unavailable, plugin, problem);
  }
  return load(plugin);
}

}  // namespace anyaccel
