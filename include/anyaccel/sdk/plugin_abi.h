/*
 * ABI between AnyAccel and a plugin: a constant that the plugin exports under the name
 * `anyaccel_plugin_descriptor`. It is plain C, so that the loader can check it before it runs any
 * of the plugin's C++ code. Authors in C++ use `ANYACCEL_PLUGIN(function)` from
 * anyaccel/sdk/plugin.h, which defines the constant.
 *
 * New fields replace reserved ones or, when none are left, are appended. A released field keeps its
 * offset, size and meaning. docs/plugin_abi.txt records them, and tools/check_plugin_abi verifies
 * that they did not change.
 */
#ifndef ANYACCEL_SDK_PLUGIN_ABI_H
#define ANYACCEL_SDK_PLUGIN_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the contract between `register_plugin` and its host. A plugin with another version is
 * rejected. */
#define ANYACCEL_PLUGIN_ABI_VERSION 1

/* Symbol that the loader looks up in the library. */
#define ANYACCEL_PLUGIN_SYMBOL "anyaccel_plugin_descriptor"

/* Sanitizer of the compilation. Code with different sanitizers cannot run in one process. */
enum {
  ANYACCEL_SANITIZER_NONE = 0,
  ANYACCEL_SANITIZER_ADDRESS = 1,
  ANYACCEL_SANITIZER_THREAD = 2,
  ANYACCEL_SANITIZER_MEMORY = 3
};

/* Object through which a plugin registers; anyaccel::sdk::Plugin in C++. Owned by the loader. */
typedef struct anyaccel_plugin_host anyaccel_plugin_host;

/* Strings are static, UTF-8, null-terminated and never null. */
typedef struct anyaccel_plugin {
  /* sizeof(anyaccel_plugin) in the plugin's compilation. The loader does not read beyond it. */
  uint32_t struct_size;
  /* ANYACCEL_PLUGIN_ABI_VERSION in the plugin's compilation. */
  uint32_t abi_version;
  /* Name for DS_ACCELERATOR, equal to that in the text file next to the library. */
  const char* name;
  /* ANYACCEL_VERSION of the headers. Major and minor version must be the loader's. */
  const char* anyaccel_version;
  /* TORCH_VERSION of the headers. Major and minor version must be the loader's. */
  const char* libtorch_version;
  /* ANYACCEL_COMPILER_ABI of anyaccel/sdk/plugin_build.h. Must be the loader's. */
  const char* compiler_abi;
  /* One of ANYACCEL_SANITIZER_*. Must be the loader's. */
  uint32_t sanitizer;
  /* Zero. */
  uint32_t flags;
  /*
   * Registers the backend. Called once, when the plugin is loaded and the fields above are valid.
   * Returns 0 on success. Otherwise writes the reason as a null-terminated string to the
   * `message_size` bytes at `message` and returns another value. Must not throw a C++ exception.
   */
  int (*register_plugin)(anyaccel_plugin_host* host, char* message, size_t message_size);
  /* Null. */
  const void* reserved[8];
} anyaccel_plugin;

#ifdef __cplusplus
}
#endif

#endif
