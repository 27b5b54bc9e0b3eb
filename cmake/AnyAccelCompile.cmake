# Flags of all our targets, and the helpers that make them.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Programs find our libraries beside them, in the build tree and when installed.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

find_program(ANYACCEL_CCACHE ccache)
if(ANYACCEL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the tree: another build folder or clone finds the same results.
  set(launcher ${ANYACCEL_CCACHE})
  if(NOT DEFINED ENV{CCACHE_BASEDIR})
    set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${ANYACCEL_CCACHE})
  endif()
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
foreach(linker mold lld)
  find_program(ANYACCEL_${linker} NAMES ${linker} ld.${linker})
  if(ANYACCEL_${linker})
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()

add_library(anyaccel_flags INTERFACE)
target_compile_options(anyaccel_flags INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  # GCC 12 reports overlapping copies inside std::string's operator+ that cannot be (GCC bug 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${ANYACCEL_WERROR}>:-Werror>)
if(ANYACCEL_SANITIZE)
  # Undefined behaviour ends the test, as the other finds do.
  add_compile_options(-fsanitize=${ANYACCEL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  # mold 1.10 lets the part that becomes read-only begin in front of its page, with sections as large as sanitizers make them: such a
  # program does not start.
  add_link_options(-fsanitize=${ANYACCEL_SANITIZE} -Wl,-z,norelro)
  # What the sanitizers insert confuses g++'s guess; the release build has the warning.
  add_compile_options(-Wno-maybe-uninitialized)
endif()

# anyaccel_library(name SOURCES... [TORCH] [PUBLIC lib...] [PRIVATE lib...]): one of our shared libraries.
function(anyaccel_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} SHARED ${ARG_SOURCES})
  anyaccel_target(${name})
  set(version ${PROJECT_VERSION})
  if(SKBUILD)
    set(version ${PROJECT_VERSION_MAJOR})  # a wheel holds no links: each name would be a copy
  endif()
  set_target_properties(${name} PROPERTIES VERSION ${version} SOVERSION ${PROJECT_VERSION_MAJOR})
  if(ARG_TORCH)
    target_link_libraries(${name} PUBLIC anyaccel_torch)
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

option(ANYACCEL_TOGETHER "Compile the sources of a group together; OFF: each alone, with a command of its own" ON)
# anyaccel_together(target group a.cpp ...): sources of this folder that are compiled as one, because most of what one costs the compiler
# is reading the same headers. They may not define one name twice in a namespace. A source that is in no group is compiled alone.
function(anyaccel_together target group)
  if(NOT ANYACCEL_TOGETHER)
    return()
  endif()
  set(sources)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    list(APPEND sources ${source})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${sources} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
endfunction()

# Include folders and warnings that every target of ours has.
function(anyaccel_target name)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:anyaccel_flags>)
  target_include_directories(${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
endfunction()

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/include/anyaccel/version.h @ONLY)
