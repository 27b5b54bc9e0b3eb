// What malloc does with memory that host tensors give back.
#pragma once

namespace anyaccel::backends::cpu {

/// Lets glibc's malloc keep up to ANYACCEL_HOST_CACHE_MB (256 unless set, 0 to leave malloc alone)
/// of freed memory at the end of its heap, where its own default is twice the largest block that
/// was freed. A training step frees all its gradients and activations, and would otherwise hand
/// them to the system and get them back page by page, cleared. Blocks of 32 MiB and more go back at
/// once, as by default. Nothing is changed where the program's user says what malloc does
/// (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, glibc.malloc in GLIBC_TUNABLES), or with
/// another libc. Throws `invalid_argument` for a value that is no number from 0 to 2047.
/// Thread-safe; a second call changes nothing.
void keep_freed_memory();

}  // namespace anyaccel::backends::cpu
