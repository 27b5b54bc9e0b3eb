# Compile flags for all targets of this project, and functions that create targets.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Libraries export only the symbols that ANYACCEL_API marks (include/anyaccel/export.h).
# tools/exports compares the exports with the lists in tests/data/exports.
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Programs find our libraries relative to their own location, in the build tree and when installed.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

find_program(ANYACCEL_CCACHE ccache)
if(ANYACCEL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # With paths relative to the tree, ccache can share its results between build folders and clones.
  set(launcher ${ANYACCEL_CCACHE})
  if(NOT DEFINED ENV{CCACHE_BASEDIR})
    set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                 CCACHE_SLOPPINESS=pch_defines,time_macros ${ANYACCEL_CCACHE})
  endif()
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
set(linkers mold lld)
if(CMAKE_CROSSCOMPILING)
  set(linkers "")  # GCC looks for linkers with the target's name, which no package installs
endif()
foreach(linker ${linkers})
  find_program(ANYACCEL_${linker} NAMES ${linker} ld.${linker})
  if(ANYACCEL_${linker})
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()

# Time limits in seconds of a unit test, and of listing a program's unit tests.
set(anyaccel_test_seconds 120)
set(anyaccel_list_seconds 60)
if(CMAKE_CROSSCOMPILING)
  set(anyaccel_test_seconds 1200)  # emulation is slow
  set(anyaccel_list_seconds 300)
endif()

add_library(anyaccel_flags INTERFACE)
target_compile_options(anyaccel_flags INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  # GCC 12 falsely reports overlapping copies in std::string's operator+ (GCC bug 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  # g++ warns about exported classes with members or bases of hidden types, such as templates of
  # torch. That is harmless, because each library has its own copies of inline functions.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-attributes>
  $<$<BOOL:${ANYACCEL_WERROR}>:-Werror>
  # On ARM, GCC 12 drops half of the partial results of some vectorized maximums, if it also
  # vectorizes the loop's epilogue (tests/cross/gcc_epilogue.cpp).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},aarch64>>:--param=vect-epilogues-nomask=0>
  # g++ compiles sources that include torch about 10 % faster if it does not collect garbage below
  # this heap size in KiB.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
if(ANYACCEL_SANITIZE)
  # Undefined behavior aborts the test, as do errors from the other sanitizers.
  add_compile_options(-fsanitize=${ANYACCEL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  # The sanitizers enlarge sections. mold 1.10 then does not align the start of the RELRO segment to
  # a page, and the program does not start.
  add_link_options(-fsanitize=${ANYACCEL_SANITIZE} -Wl,-z,norelro)
  # With sanitizers, this warning has false positives in g++. The release build keeps the warning.
  add_compile_options(-Wno-maybe-uninitialized)
endif()

# anyaccel_library(name SOURCES... [TORCH] [PUBLIC lib...] [PRIVATE lib...]): add a shared library.
function(anyaccel_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} SHARED ${ARG_SOURCES})
  anyaccel_target(${name})
  set(version ${PROJECT_VERSION})
  if(SKBUILD)
    set(version ${PROJECT_VERSION_MAJOR})  # wheels cannot contain links, so each name would be a copy
  endif()
  set_target_properties(${name} PROPERTIES VERSION ${version} SOVERSION ${PROJECT_VERSION_MAJOR})
  if(ARG_TORCH)
    target_link_libraries(${name} PUBLIC anyaccel_torch)
    anyaccel_precompiled(${name} anyaccel_pch_torch ${anyaccel_pch_std} ${anyaccel_pch_torch})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  if(NOT ANYACCEL_SANITIZE)
    # Calls to functions that another library hides fail at link time instead of run time. Sanitizer
    # builds are an exception, because the program links the sanitizers' runtime.
    target_link_options(${name} PRIVATE LINKER:-z,defs)
  endif()
endfunction()

option(ANYACCEL_TOGETHER "Compile the sources of a group together; OFF: compile each separately" ON)
# anyaccel_together(target group a.cpp ...): compile sources of this folder as one translation unit,
# because reading the same headers takes most of the time. Later calls, even from other folders, add
# to the group. Two sources of a group must not define the same name in one namespace. Sources
# without a group are compiled separately. CMake's unity builds use absolute paths, which prevent
# ccache from sharing results between clones, so this function uses relative paths.
function(anyaccel_together target group)
  if(NOT ANYACCEL_TOGETHER)
    return()
  endif()
  set(key anyaccel_together_${target}_${group})
  get_property(folder GLOBAL PROPERTY ${key}_folder)
  get_property(text GLOBAL PROPERTY ${key}_text)
  if(NOT folder)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/together)
    set_property(GLOBAL PROPERTY ${key}_folder ${folder})
    target_sources(${target} PRIVATE ${folder}/${target}_${group}.cpp)
  endif()
  set(sources)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    list(APPEND sources ${source})
    file(RELATIVE_PATH name ${folder} ${source})
    string(APPEND text "#include \"${name}\"\n")
  endforeach()
  set_property(GLOBAL PROPERTY ${key}_text "${text}")
  file(CONFIGURE OUTPUT ${folder}/${target}_${group}.cpp CONTENT "// Generated by CMake: sources that are compiled together.\n${text}" @ONLY)
  set_source_files_properties(${sources} TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
endfunction()

# Precompiled headers, because reading torch's headers takes longer than compiling most of our
# sources. All header names are in <>, so that the result does not depend on the folder. The default
# is OFF with ANYACCEL_TOGETHER=OFF, because clang-tidy reads the compile commands of such builds.
option(ANYACCEL_PCH "Precompile the headers of torch and the standard library" ${ANYACCEL_TOGETHER})
set(anyaccel_pch_std <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <filesystem> <functional> <map> <memory> <mutex> <optional>
    <set> <span> <sstream> <string> <string_view> <unordered_map> <utility> <vector>)
set(anyaccel_pch_torch <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h> <ATen/core/stack.h> <torch/library.h> <ATen/ops/empty.h>
    <c10/core/GradMode.h>)
# anyaccel_precompiled(target NAME headers...): make `target` use the precompiled header NAME, which
# the first call creates.
function(anyaccel_precompiled target name)
  if(NOT ANYACCEL_PCH OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  if(NOT TARGET ${name})
    set(source ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Generated by CMake: compiled for its precompiled header.\n" @ONLY)
    add_library(${name} OBJECT ${source})
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:anyaccel_flags>)
    target_precompile_headers(${name} PRIVATE ${ARGN})
    if(name MATCHES "torch")
      target_link_libraries(${name} PRIVATE anyaccel_torch)
    endif()
    if(name MATCHES "tests")
      target_link_libraries(${name} PRIVATE GTest::gtest GTest::gmock)  # for their compile definitions
      target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # as in anyaccel_tests()
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
  # With precompiled headers, GCC 12 no longer treats its own <string> as a system header, and
  # reports false warnings in it (GCC bugs 105329 and 105651).
  target_compile_options(${target} PRIVATE "$<$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>:-Wno-stringop-overflow;-Wno-array-bounds>")
endfunction()

# anyaccel_target(name): set the include folders and warnings that all targets of this project
# share.
function(anyaccel_target name)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:anyaccel_flags>)
  target_include_directories(${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
endfunction()

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/include/anyaccel/version.h @ONLY)
