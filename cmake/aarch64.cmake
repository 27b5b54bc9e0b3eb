# Toolchain file for ARM servers (64-bit): Debian's cross compiler, with the libraries and the
# emulator that `tools/cross aarch64` sets up. The presets `aarch64` and `aarch64-kernels` use it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(ANYACCEL_CROSS_DIR ${CMAKE_CURRENT_LIST_DIR}/../.cache/cross/aarch64 CACHE PATH "Folder that tools/cross fills")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ANYACCEL_CROSS_DIR)
get_filename_component(ANYACCEL_CROSS_DIR ${ANYACCEL_CROSS_DIR} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${ANYACCEL_CROSS_DIR}/sysroot)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR ${ANYACCEL_CROSS_DIR}/bin/emulate)

set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${ANYACCEL_CROSS_DIR}/sysroot/usr/include/aarch64-linux-gnu)
# Libraries of which only others' dependencies are linked, and LibTorch's CUDA libraries, which are
# not installed.
set(flags "-Wl,-rpath-link,${ANYACCEL_CROSS_DIR}/sysroot/usr/lib/aarch64-linux-gnu -Wl,--allow-shlib-undefined")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${flags}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${flags}")
