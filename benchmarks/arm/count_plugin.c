// A plugin for qemu-user that counts executed instructions, and prints their number as a JSON object
// at exit.
//
// Debian does not package qemu-plugin.h. The parts of version 1 of the API that are used here are
// declared below.
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
enum { ADD_U64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int op, void* at,
                                              uint64_t value);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void*), void*);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);

EXPORT int qemu_plugin_version = 1;

static uint64_t instructions;

static void on_translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &instructions,
                                           qemu_plugin_tb_n_insns(block));
}

static void on_exit(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  fprintf(stderr, "{\"instructions\": %" PRIu64 "}\n", instructions);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void* info, int count, char** arguments) {
  (void)info, (void)count, (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
  qemu_plugin_register_atexit_cb(id, on_exit, NULL);
  return 0;
}
