/* A plugin in C. FAKE_DESCRIPTOR selects one field of its descriptor that is wrong; all others match the host. */
#include <stdlib.h>
#include <string.h>

#include "anyaccel/sdk/plugin_abi.h"

static int register_nothing(anyaccel_plugin_host* host, char* message, size_t message_size) {
  (void)host;
  strncpy(message, "written in C", message_size);
  return 1;
}

#if !defined(FAKE_WITHOUT_DESCRIPTOR)
extern __attribute__((visibility("default"))) anyaccel_plugin anyaccel_plugin_descriptor;
#endif
anyaccel_plugin anyaccel_plugin_descriptor;

static int told(const char* what) {
  const char* value = getenv("FAKE_DESCRIPTOR");
  return value != NULL && strcmp(value, what) == 0;
}

static const char* host_says(const char* variable) {
  const char* value = getenv(variable);
  return value != NULL ? value : "";
}

__attribute__((constructor)) static void fill(void) {
  anyaccel_plugin* out = &anyaccel_plugin_descriptor;
  out->struct_size = (uint32_t)(told("size") ? 24 : sizeof(anyaccel_plugin));
  out->abi_version = told("abi") ? 99 : ANYACCEL_PLUGIN_ABI_VERSION;
  out->name = told("name") ? "another" : "fakecard";
  out->anyaccel_version = told("anyaccel") ? "9.9.9" : host_says("FAKE_ANYACCEL");
  out->libtorch_version = told("libtorch") ? "2.99.0" : host_says("FAKE_LIBTORCH");
  out->compiler_abi = told("null") ? NULL : told("compiler") ? "m68k" : host_says("FAKE_COMPILER");
  out->sanitizer = told("sanitizer") ? 77 : (uint32_t)atoi(host_says("FAKE_SANITIZER"));
  out->register_plugin = told("function") ? NULL : register_nothing;
}
