// A plugin for qemu-user that counts executed instructions and loaded bytes, and prints both as a
// JSON object at exit.
//
// Debian does not package qemu-plugin.h. The parts of version 1 of the API that are used here are
// declared below.
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD_U64 = 0, NO_REGISTERS = 0, READS = 1 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int op, void* at,
                                              uint64_t value);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn*,
                                      void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t, void*),
                                      int registers, int reads_or_writes, void*);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void*), void*);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);

EXPORT int qemu_plugin_version = 1;

static uint64_t instructions, bytes;
static int counts_bytes;

static void on_read(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void* data) {
  (void)cpu, (void)address, (void)data;
  bytes += UINT64_C(1) << qemu_plugin_mem_size_shift(info);
}

static void on_translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  const size_t count = qemu_plugin_tb_n_insns(block);
  qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &instructions, count);
  for (size_t i = 0; counts_bytes && i < count; ++i)
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), on_read, NO_REGISTERS,
                                     READS, NULL);
}

static void on_exit(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  fprintf(stderr, "{\"instructions\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n", instructions, bytes);
}

/// The argument `bytes=on` also counts loaded bytes, which is slow.
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void* info, int count, char** arguments) {
  (void)info;
  for (int i = 0; i < count; ++i) counts_bytes |= strcmp(arguments[i], "bytes=on") == 0;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
  qemu_plugin_register_atexit_cb(id, on_exit, NULL);
  return 0;
}
