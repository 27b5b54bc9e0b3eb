// The program that the kernel starts in place of an ARM program, for tools/cross. Its arguments are
// the program's path, argv[0] and arguments. It is linked statically, because the environment may
// name ARM libraries to preload.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char** arguments) {
  if (count < 3) return 2;
  char* emulator[] = {QEMU, "-cpu", CPU, "-L", SYSROOT, "-0", arguments[2], arguments[1]};
  const int own = sizeof emulator / sizeof *emulator, rest = count - 3;
  char** all = calloc((size_t)(own + rest + 1), sizeof(char*));
  if (all == NULL) return 2;
  memcpy(all, emulator, sizeof emulator);
  memcpy(all + own, arguments + 3, (size_t)rest * sizeof(char*));
  execv(QEMU, all);
  perror(QEMU);
  return 127;
}
