// Entry points of OpenMP's threads, also for sources without torch.
#pragma once

// torch's threads are OpenMP's. Their entry point is called by name, because the requirements of
// `#pragma omp` (a flag, omp.h, a runtime to link) differ between compilers, and a second runtime
// in the process would have its own threads. LLVM's runtime provides this entry point too.
extern "C" {
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags)
    __attribute__((weak));
int omp_get_thread_num() __attribute__((weak));
int omp_get_num_threads() __attribute__((weak));
}
