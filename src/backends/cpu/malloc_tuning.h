// Makes malloc keep the memory of freed host tensors for reuse.
#pragma once

namespace anyaccel::backends::cpu {

/// Lets glibc's malloc keep up to ANYACCEL_HOST_CACHE_MB (in MiB; default 2047; 0 leaves malloc
/// unchanged) of freed memory at the top of its heap. A training step frees all its gradients and
/// activations. By default, malloc keeps at most twice the size of the largest block freed so far
/// and returns the rest to the system. When malloc needs that memory again, the system must map and
/// clear it page by page. Blocks of 32 MiB or more are still returned immediately. Has no effect if
/// the user configures malloc (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, glibc.malloc in
/// GLIBC_TUNABLES), or if the C library is not glibc. Throws `invalid_argument` if the value is not
/// a number from 0 to 2047. Thread-safe; later calls are no-ops.
void keep_freed_memory();

}  // namespace anyaccel::backends::cpu
