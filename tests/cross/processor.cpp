// Prints what this program sees of the processor, for tools/cross.
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>

int main() {
#if !defined(PR_SVE_GET_VL)
  constexpr int PR_SVE_GET_VL = 51;
#endif
  const int vector = ::prctl(PR_SVE_GET_VL);
  std::printf("hwcap=%#lx hwcap2=%#lx sve_bits=%d page=%ld\n", ::getauxval(AT_HWCAP),
              ::getauxval(AT_HWCAP2), vector > 0 ? (vector & 0xffff) * 8 : 0,
              ::sysconf(_SC_PAGESIZE));
}
