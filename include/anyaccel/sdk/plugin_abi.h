/*
 * The border between AnyAccel and a plugin: one constant that a plugin exports under the name
 * `anyaccel_plugin_descriptor`. Plain C, so that it can be read before a line of the plugin's C++
 * is trusted. Authors in C++ write `ANYACCEL_PLUGIN(function)` of anyaccel/sdk/plugin.h, which
 * fills it in.
 *
 * Fields are only ever appended: in the place of reserved ones, and when these are used up, at the
 * end. A released field keeps its offset, size and meaning. docs/plugin_abi.txt records them, and
 * tools/check_plugin_abi compares.
 */
#ifndef ANYACCEL_SDK_PLUGIN_ABI_H
#define ANYACCEL_SDK_PLUGIN_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of what `register_plugin` may do with its host. Another number is another contract: such
 * a plugin is refused. */
#define ANYACCEL_PLUGIN_ABI_VERSION 1

/* What a loader looks up in the library. */
#define ANYACCEL_PLUGIN_SYMBOL "anyaccel_plugin_descriptor"

/* The sanitizer that code was compiled with. Two that differ do not run in one process. */
enum {
  ANYACCEL_SANITIZER_NONE = 0,
  ANYACCEL_SANITIZER_ADDRESS = 1,
  ANYACCEL_SANITIZER_THREAD = 2,
  ANYACCEL_SANITIZER_MEMORY = 3
};

/* What a plugin registers with; in C++ it is anyaccel::sdk::Plugin. Belongs to the loader. */
typedef struct anyaccel_plugin_host anyaccel_plugin_host;

/* All texts are static, UTF-8, end with a zero byte, and are never null. */
typedef struct anyaccel_plugin {
  /* sizeof(anyaccel_plugin) where the plugin was compiled. Fields beyond it are not read. */
  uint32_t struct_size;
  /* ANYACCEL_PLUGIN_ABI_VERSION where the plugin was compiled. */
  uint32_t abi_version;
  /* What DS_ACCELERATOR says; the same as in the text file beside the library. */
  const char* name;
  /* ANYACCEL_VERSION of the headers; major and minor must be the loader's. */
  const char* anyaccel_version;
  /* TORCH_VERSION of the headers; major and minor must be the loader's. */
  const char* libtorch_version;
  /* ANYACCEL_COMPILER_ABI of anyaccel/sdk/plugin_build.h; must be the loader's. */
  const char* compiler_abi;
  /* One of ANYACCEL_SANITIZER_*; must be the loader's. */
  uint32_t sanitizer;
  /* Zero. */
  uint32_t flags;
  /*
   * Called once, when the plugin is loaded, with all of the above checked. Returns 0, or anything
   * else after writing why, with a zero byte, into the `message_size` bytes at `message`. No C++
   * exception may leave it.
   */
  int (*register_plugin)(anyaccel_plugin_host* host, char* message, size_t message_size);
  /* Null. */
  const void* reserved[8];
} anyaccel_plugin;

#ifdef __cplusplus
}
#endif

#endif
