// Declarations of the OpenMP runtime functions that AnyAccel calls. They do not require torch
// headers.
#pragma once

// torch runs its parallel loops on OpenMP threads. These functions are declared here instead of
// using `#pragma omp`: its requirements (a flag, omp.h, a runtime to link) differ between
// compilers, and a second runtime in the process would create additional threads. LLVM's runtime
// also provides these functions.
extern "C" {
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags)
    __attribute__((weak));
int omp_get_thread_num() __attribute__((weak));
int omp_get_num_threads() __attribute__((weak));
}
