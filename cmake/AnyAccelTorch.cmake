# Finds LibTorch and makes the target anyaccel_torch. LibTorch's own package file is not used: it stops
# on machines whose CUDA toolkit is absent or of another version, and we compile no CUDA through it.
# Where to look: -DTorch_DIR=<prefix>/share/cmake/Torch, the environment's Torch_DIR, or the torch of
# -DANYACCEL_PYTHON (default: python3 of an active virtual environment or of PATH).
set(Torch_DIR "$ENV{Torch_DIR}" CACHE PATH "LibTorch's share/cmake/Torch")
if(NOT Torch_DIR)
  find_program(ANYACCEL_PYTHON NAMES python3 python HINTS $ENV{VIRTUAL_ENV}/bin)
  if(ANYACCEL_PYTHON)
    execute_process(
      COMMAND ${ANYACCEL_PYTHON} -c
        "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT torch_prefix)
    message(FATAL_ERROR "LibTorch was not found; give -DTorch_DIR=<libtorch>/share/cmake/Torch, or "
                        "-DANYACCEL_PYTHON=<python that has torch>, or run `make setup`")
  endif()
  set(Torch_DIR "${torch_prefix}/share/cmake/Torch" CACHE PATH "LibTorch's share/cmake/Torch" FORCE)
endif()
get_filename_component(ANYACCEL_TORCH_PREFIX "${Torch_DIR}/../../.." ABSOLUTE)
foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(EXISTS ${ANYACCEL_TORCH_PREFIX}/include/${header})
    file(STRINGS ${ANYACCEL_TORCH_PREFIX}/include/${header} version_line REGEX "define TORCH_VERSION +\"?[0-9]")
    file(STRINGS ${ANYACCEL_TORCH_PREFIX}/include/${header} parts REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
    break()
  endif()
endforeach()
string(REGEX MATCHALL "[0-9]+" parts "${parts}")
list(JOIN parts "." ANYACCEL_TORCH_VERSION)
if(NOT ANYACCEL_TORCH_VERSION)
  message(FATAL_ERROR "LibTorch in ${ANYACCEL_TORCH_PREFIX} has no version header; give another Torch_DIR")
endif()
if(ANYACCEL_TORCH_VERSION VERSION_LESS 2.11 OR ANYACCEL_TORCH_VERSION VERSION_GREATER_EQUAL 2.14)
  message(FATAL_ERROR "LibTorch ${ANYACCEL_TORCH_VERSION} is not supported; AnyAccel ${PROJECT_VERSION} wants 2.11 to 2.13")
endif()
message(STATUS "LibTorch ${ANYACCEL_TORCH_VERSION} in ${ANYACCEL_TORCH_PREFIX}")

if(NOT TARGET anyaccel_torch)
  add_library(anyaccel_torch INTERFACE)
  target_include_directories(anyaccel_torch SYSTEM INTERFACE
    $<BUILD_INTERFACE:${ANYACCEL_TORCH_PREFIX}/include>
    $<BUILD_INTERFACE:${ANYACCEL_TORCH_PREFIX}/include/torch/csrc/api/include>)
  # The wheels are built with the new string ABI since 2.7; libtorch's own package says it for others.
  target_link_options(anyaccel_torch INTERFACE $<BUILD_INTERFACE:-Wl,-rpath,${ANYACCEL_TORCH_PREFIX}/lib>)
  target_link_libraries(anyaccel_torch INTERFACE
    $<BUILD_INTERFACE:${ANYACCEL_TORCH_PREFIX}/lib/libtorch_cpu.so>
    $<BUILD_INTERFACE:${ANYACCEL_TORCH_PREFIX}/lib/libc10.so>)
endif()
