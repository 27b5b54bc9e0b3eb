// The entry points of OpenMP's threads, for sources without torch as well.
#pragma once

// torch's threads are OpenMP's. Their entry point is called by name: what `#pragma omp` needs (a
// flag, omp.h, a runtime to link) differs with the compiler, and a second runtime in the process
// would have threads of its own. LLVM's has it too.
extern "C" {
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags)
    __attribute__((weak));
int omp_get_thread_num() __attribute__((weak));
int omp_get_num_threads() __attribute__((weak));
}
