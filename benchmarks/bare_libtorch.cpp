// The smallest program that links LibTorch: the baseline for `anyaccel report`.
#include <ATen/Parallel.h>

#include <cstdio>

int main() { return std::printf("%d\n", at::get_num_threads()) > 0 ? 0 : 1; }
