// What the author of a plugin writes: one function, and ANYACCEL_PLUGIN(function) in one source.
// docs/how-to/new-backend.md walks through it; examples/out_of_tree_backend is a whole project.
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

/// Registration interface of a plugin. Valid while the registering function runs. Not thread-safe.
class ANYACCEL_API Plugin {
 public:
  /// The traits of the text file beside the library. `probe` is null: the registry asks the file's
  /// own first.
  const Traits& traits() const noexcept { return traits_; }
  /// Absolute path of the folder that contains the library and its text file.
  const std::string& folder() const noexcept { return folder_; }

  /// Registers the backend under the name of the text file. `create` is called once, when the
  /// backend is chosen; put changes to the process there (renaming PrivateUse1, registering
  /// kernels). `probe` counts devices without starting one; without `probe`, the text file's probe
  /// is used. Both run on threads of their own and must return within ANYACCEL_PLUGIN_TIMEOUT.
  /// `probe` first runs in a forked child, which is then killed. Throws `invalid_argument` if
  /// called twice or without `create`.
  void add_backend(std::function<std::shared_ptr<Backend>()> create,
                   std::function<Probe()> probe = {});
  /// Registers an op builder for that backend, as register_op_builder() does.
  void add_op_builder(const std::string& class_name, OpBuilderFactory factory);

 private:
  friend struct PluginAccess;  // the loader's
  Plugin(Traits traits, std::string folder)
      : traits_(std::move(traits)), folder_(std::move(folder)) {}
  Traits traits_;
  std::string folder_;
  std::function<std::shared_ptr<Backend>()> create_;
  std::function<Probe()> probe_;
  std::vector<std::pair<std::string, OpBuilderFactory>> op_builders_;
};

/// Runs a registering function where no exception may pass. Used by ANYACCEL_PLUGIN.
inline int register_plugin_safely(void (*function)(Plugin&), anyaccel_plugin_host* host,
                                  char* message, std::size_t message_size) noexcept {
  const char* reason = "its registering function threw something that is not a std::exception";
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

/// Makes this library a plugin whose registering function is `function`:
/// void(anyaccel::sdk::Plugin&). Once a library. Its name comes from CMake's anyaccel_add_plugin(),
/// which also reads the second constant to write the text file.
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
