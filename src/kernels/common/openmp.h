// Entry points of the OpenMP runtime, also for sources that do not include torch.
#pragma once

// torch runs its parallel loops on OpenMP threads. The entry points are declared here by name,
// because the requirements of `#pragma omp` (a flag, omp.h, a runtime to link) differ between
// compilers, and a second runtime in the process would create additional threads. LLVM's runtime
// also provides these entry points.
extern "C" {
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags)
    __attribute__((weak));
int omp_get_thread_num() __attribute__((weak));
int omp_get_num_threads() __attribute__((weak));
}
