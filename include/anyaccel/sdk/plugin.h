// Interface for plugin authors: write a registration function, and pass it to
// ANYACCEL_PLUGIN(function) in one source file. docs/how-to/new-backend.md is a tutorial, and
// examples/out_of_tree_backend is a complete project.
#pragma once

#include <torch/headeronly/version.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/sdk/op_builder.h"
#include "anyaccel/sdk/plugin_build.h"
#include "anyaccel/sdk/traits.h"
#include "anyaccel/version.h"

namespace anyaccel::sdk {

class Backend;

/// Registration interface of a plugin. Valid only while the registration function runs. Not
/// thread-safe.
class ANYACCEL_API Plugin {
 public:
  /// Traits from the text file next to the library. `probe` is null, because the registry itself
  /// runs the probe that the text file describes.
  const Traits& traits() const noexcept { return traits_; }
  /// Absolute path of the folder that contains the library and its text file.
  const std::string& folder() const noexcept { return folder_; }

  /// Register the backend under the name in the text file. Throws `invalid_argument` if called
  /// twice or without `create`.
  ///
  /// `create` is called once, when the backend is chosen. It may change global state of the
  /// process, for example rename PrivateUse1 or register kernels. `probe` counts devices without
  /// initializing them; if it is empty, the text file's probe is used. Both run on separate threads
  /// and must return within ANYACCEL_PLUGIN_TIMEOUT. `probe` first runs in a forked child, which is
  /// killed afterwards.
  void add_backend(std::function<std::shared_ptr<Backend>()> create,
                   std::function<Probe()> probe = {});
  /// Register an op builder for the plugin's backend; see register_op_builder().
  void add_op_builder(const std::string& class_name, OpBuilderFactory factory);

 private:
  friend struct PluginAccess;  // lets the plugin loader access private members
  Plugin(Traits traits, std::string folder)
      : traits_(std::move(traits)), folder_(std::move(folder)) {}
  Traits traits_;
  std::string folder_;
  std::function<std::shared_ptr<Backend>()> create_;
  std::function<Probe()> probe_;
  std::vector<std::pair<std::string, OpBuilderFactory>> op_builders_;
};

/// Call a registration function and convert exceptions to a message. Used by ANYACCEL_PLUGIN.
inline int register_plugin_safely(void (*function)(Plugin&), anyaccel_plugin_host* host,
                                  char* message, std::size_t message_size) noexcept {
  const char* reason = "it threw something that is not a std::exception";
  try {
    function(*reinterpret_cast<Plugin*>(host));
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(message, message_size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, message_size, "%s", reason);
  }
  return 1;
}

}  // namespace anyaccel::sdk

/// Make this library a plugin with the registration function `function`, of type
/// void(anyaccel::sdk::Plugin&). Use it once per library. The CMake function anyaccel_add_plugin()
/// defines the plugin's name, and generates the plugin's text file from anyaccel_plugin_identity.
#define ANYACCEL_PLUGIN(function)                                                                 \
  extern "C" {                                                                                    \
  static int anyaccel_plugin_register(anyaccel_plugin_host* host, char* message,                  \
                                      size_t message_size) {                                      \
    return ::anyaccel::sdk::register_plugin_safely(function, host, message, message_size);        \
  }                                                                                               \
  extern __attribute__((visibility("default"))) const anyaccel_plugin anyaccel_plugin_descriptor; \
  const anyaccel_plugin anyaccel_plugin_descriptor = {sizeof(anyaccel_plugin),                    \
                                                      ANYACCEL_PLUGIN_ABI_VERSION,                \
                                                      ANYACCEL_PLUGIN_NAME,                       \
                                                      ANYACCEL_VERSION,                           \
                                                      TORCH_VERSION,                              \
                                                      ANYACCEL_COMPILER_ABI,                      \
                                                      ANYACCEL_SANITIZER_KIND,                    \
                                                      0,                                          \
                                                      anyaccel_plugin_register,                   \
                                                      {}};                                        \
  __attribute__((used)) extern const char anyaccel_plugin_identity[] =                            \
      "\nanyaccel-plugin:name = " ANYACCEL_PLUGIN_NAME                                            \
      "\nanyaccel-plugin:abi = " ANYACCEL_TEXT_OF(                                                \
          ANYACCEL_PLUGIN_ABI_VERSION) "\nanyaccel-plugin:anyaccel = " ANYACCEL_VERSION           \
                                       "\nanyaccel-plugin:libtorch = " TORCH_VERSION              \
                                       "\nanyaccel-plugin:compiler_abi = " ANYACCEL_COMPILER_ABI  \
                                       "\nanyaccel-plugin:sanitizer = " ANYACCEL_SANITIZER_NAME   \
                                       "\n";                                                      \
  }                                                                                               \
  static_assert(true, "a semicolon follows")
