// Shows a defect of GCC 12.2 on ARM: with -O3, maximum() ignores elements 4 to 7 of each 8, unless
// --param=vect-epilogues-nomask=0 is given. Kernels computed wrong scales because of it. Exit
// status 1 if the compiler has the defect.
#include <cstdint>
#include <cstdio>

__attribute__((noinline)) int maximum(const std::uint16_t* from, long count) {
  const auto key = [](std::uint16_t bits) {
    return static_cast<int>((static_cast<std::uint32_t>(bits) << 16) & 0x7fffffffU);
  };
  int high[2] = {-1, -1};
  long i = 0;
  for (; i + 2 <= count; i += 2)
    for (int k = 0; k < 2; ++k) high[k] = key(from[i + k]) > high[k] ? key(from[i + k]) : high[k];
  int out = high[0] > high[1] ? high[0] : high[1];
  for (; i < count; ++i) out = key(from[i]) > out ? key(from[i]) : out;
  return out;
}

int main() {
  constexpr int kCount = 92;
  std::uint16_t values[kCount];
  int wrong = 0;
  for (int place = 0; place < kCount; ++place) {
    for (int i = 0; i < kCount; ++i) values[i] = static_cast<std::uint16_t>(i == place ? 999 : 1);
    wrong += maximum(values, kCount) != 999 << 16 ? 1 : 0;
  }
  std::printf("%d of %d maximums are wrong\n", wrong, kCount);
  return wrong == 0 ? 0 : 1;
}
