// Compile-time properties that must be the same for all libraries in a process. Does not need
// torch.
#pragma once

#include <version>  // defines the macros that identify the standard library

#include "anyaccel/sdk/plugin_abi.h"

#define ANYACCEL_TEXT_OF_(x) #x
#define ANYACCEL_TEXT_OF(x) ANYACCEL_TEXT_OF_(x)

#if defined(__x86_64__)
#define ANYACCEL_ARCHITECTURE "x86_64"
#elif defined(__aarch64__)
#define ANYACCEL_ARCHITECTURE "aarch64"
#elif defined(__powerpc64__)
#define ANYACCEL_ARCHITECTURE "ppc64"
#elif defined(__riscv)
#define ANYACCEL_ARCHITECTURE "riscv64"
#else
#define ANYACCEL_ARCHITECTURE "unknown"
#endif

// Settings that change the ABI of the standard library. If these settings match, libraries built by
// different versions of one compiler are compatible.
#if defined(_LIBCPP_VERSION)
#define ANYACCEL_STANDARD_LIBRARY "libc++ abi=" ANYACCEL_TEXT_OF(_LIBCPP_ABI_VERSION)
#elif defined(_GLIBCXX_DEBUG)
#define ANYACCEL_STANDARD_LIBRARY \
  "libstdc++ cxx11=" ANYACCEL_TEXT_OF(_GLIBCXX_USE_CXX11_ABI) " debug"
#elif defined(__GLIBCXX__)
#define ANYACCEL_STANDARD_LIBRARY "libstdc++ cxx11=" ANYACCEL_TEXT_OF(_GLIBCXX_USE_CXX11_ABI)
#else
#define ANYACCEL_STANDARD_LIBRARY "unknown"
#endif

/// Architecture, C++ ABI and standard library, for example "x86_64 itanium libstdc++ cxx11=1".
#define ANYACCEL_COMPILER_ABI ANYACCEL_ARCHITECTURE " itanium " ANYACCEL_STANDARD_LIBRARY

#if defined(__has_feature)
#define ANYACCEL_HAS_FEATURE(x) __has_feature(x)
#else
#define ANYACCEL_HAS_FEATURE(x) 0
#endif

/// The sanitizer of this build, as a constant (ANYACCEL_SANITIZER_*) and as text.
#if defined(__SANITIZE_ADDRESS__) || ANYACCEL_HAS_FEATURE(address_sanitizer)
#define ANYACCEL_SANITIZER_KIND ANYACCEL_SANITIZER_ADDRESS
#define ANYACCEL_SANITIZER_NAME "address"
#elif defined(__SANITIZE_THREAD__) || ANYACCEL_HAS_FEATURE(thread_sanitizer)
#define ANYACCEL_SANITIZER_KIND ANYACCEL_SANITIZER_THREAD
#define ANYACCEL_SANITIZER_NAME "thread"
#elif ANYACCEL_HAS_FEATURE(memory_sanitizer)
#define ANYACCEL_SANITIZER_KIND ANYACCEL_SANITIZER_MEMORY
#define ANYACCEL_SANITIZER_NAME "memory"
#else
#define ANYACCEL_SANITIZER_KIND ANYACCEL_SANITIZER_NONE
#define ANYACCEL_SANITIZER_NAME "none"
#endif
