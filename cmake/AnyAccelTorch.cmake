# Finds LibTorch and creates the target anyaccel_torch. Used by AnyAccel's build and by the
# installed anyaccelConfig.cmake. Does not use LibTorch's own package file, which fails if the CUDA
# toolkit is missing or has a different version. AnyAccel does not need that file to compile CUDA.
#
# The first of these that exists is used:
# - -DTorch_DIR (LibTorch's folder or its share/cmake/Torch), or the environment variable Torch_DIR
# - ANYACCEL_TORCH_RECORDED, the LibTorch that an installed AnyAccel was built with
# - the torch of -DANYACCEL_PYTHON if it is set, otherwise of an active virtual environment, of
#   .venv in the source tree, or of python3
#
# Sets ANYACCEL_TORCH_PREFIX and ANYACCEL_TORCH_VERSION, or ANYACCEL_TORCH_ERROR on failure.
set(ANYACCEL_TORCH_ERROR "")
set(ANYACCEL_TORCH_PREFIX "")
set(ANYACCEL_TORCH_VERSION "")
set(Torch_DIR "$ENV{Torch_DIR}" CACHE PATH "LibTorch, or its share/cmake/Torch")
set(ANYACCEL_PYTHON "" CACHE FILEPATH "Python interpreter whose torch is used")

# Searches for the include folder, because a package may have moved the CMake files.
foreach(candidate "${Torch_DIR}/../../.." "${Torch_DIR}" "${ANYACCEL_TORCH_RECORDED}")
  get_filename_component(anyaccel_found "${candidate}" ABSOLUTE)
  if(NOT ANYACCEL_TORCH_PREFIX AND candidate MATCHES "[A-Za-z0-9]" AND EXISTS "${anyaccel_found}/include/ATen")
    set(ANYACCEL_TORCH_PREFIX "${anyaccel_found}")
  endif()
  if(Torch_DIR AND candidate STREQUAL Torch_DIR AND NOT ANYACCEL_TORCH_PREFIX)
    set(ANYACCEL_TORCH_ERROR "no LibTorch with headers in Torch_DIR=${Torch_DIR}. Set it to <libtorch>/share/cmake/Torch.")
    break()
  endif()
endforeach()

if(NOT ANYACCEL_TORCH_PREFIX AND NOT ANYACCEL_TORCH_ERROR)
  find_program(anyaccel_python3 NAMES python3 python)
  set(anyaccel_pythons "$ENV{VIRTUAL_ENV}/bin/python3" "${ANYACCEL_TORCH_VENV}/bin/python3" "${anyaccel_python3}")
  if(ANYACCEL_PYTHON)
    set(anyaccel_pythons "${ANYACCEL_PYTHON}")
  endif()
  foreach(candidate ${anyaccel_pythons})
    if(NOT ANYACCEL_TORCH_PREFIX AND EXISTS "${candidate}")
      execute_process(
        COMMAND "${candidate}" -c
          "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
        OUTPUT_VARIABLE anyaccel_found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(anyaccel_found AND EXISTS "${anyaccel_found}/include/ATen")
        set(ANYACCEL_TORCH_PREFIX "${anyaccel_found}")
      endif()
    endif()
  endforeach()
  if(ANYACCEL_TORCH_PREFIX)
    # Cached, so that a configured build does not change if PATH later leads to a different python3.
    set(Torch_DIR "${ANYACCEL_TORCH_PREFIX}/share/cmake/Torch" CACHE PATH "LibTorch, or its share/cmake/Torch" FORCE)
  else()
    set(ANYACCEL_TORCH_ERROR "cannot find LibTorch. Set -DTorch_DIR=<libtorch>/share/cmake/Torch or \
-DANYACCEL_PYTHON=<python with torch>.")
  endif()
endif()

if(ANYACCEL_TORCH_PREFIX)
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS ${ANYACCEL_TORCH_PREFIX}/include/${header})
      file(STRINGS ${ANYACCEL_TORCH_PREFIX}/include/${header} anyaccel_parts
           REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
      break()
    endif()
  endforeach()
  string(REGEX MATCHALL "[0-9]+" anyaccel_parts "${anyaccel_parts}")
  list(JOIN anyaccel_parts "." ANYACCEL_TORCH_VERSION)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" anyaccel_found "${ANYACCEL_TORCH_VERSION}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" anyaccel_wanted "${ANYACCEL_TORCH_BUILT_WITH}")
  if(NOT ANYACCEL_TORCH_VERSION)
    set(ANYACCEL_TORCH_ERROR "no version header in the LibTorch in ${ANYACCEL_TORCH_PREFIX}. Set another Torch_DIR.")
  elseif(anyaccel_wanted AND NOT anyaccel_wanted VERSION_EQUAL anyaccel_found)
    # LibTorch's C++ interface changes with every minor version.
    set(ANYACCEL_TORCH_ERROR "incompatible LibTorch in ${ANYACCEL_TORCH_PREFIX} (got ${ANYACCEL_TORCH_VERSION}, expected \
${anyaccel_wanted}, because this AnyAccel was built with ${ANYACCEL_TORCH_BUILT_WITH}). Set -DTorch_DIR to a LibTorch \
${anyaccel_wanted}, or build AnyAccel with ${ANYACCEL_TORCH_VERSION}.")
  elseif(ANYACCEL_TORCH_VERSION VERSION_LESS 2.11 OR ANYACCEL_TORCH_VERSION VERSION_GREATER_EQUAL 2.14)
    set(ANYACCEL_TORCH_ERROR
        "unsupported LibTorch in ${ANYACCEL_TORCH_PREFIX} (got ${ANYACCEL_TORCH_VERSION}, expected 2.11 to 2.13).")
  endif()
endif()

if(NOT ANYACCEL_TORCH_ERROR AND NOT TARGET anyaccel_torch)
  set(anyaccel_lib ${ANYACCEL_TORCH_PREFIX}/lib)
  add_library(anyaccel_torch INTERFACE)
  # These paths are valid only on this machine, so they are not exported. The installed package file
  # searches for them again.
  target_include_directories(anyaccel_torch SYSTEM INTERFACE
    $<BUILD_INTERFACE:${ANYACCEL_TORCH_PREFIX}/include>
    $<BUILD_INTERFACE:${ANYACCEL_TORCH_PREFIX}/include/torch/csrc/api/include>)
  # libtorch.so loads the libraries of the devices for which LibTorch was built. We use none of its
  # symbols, so without no-as-needed the linker would drop it, and GPUs would not be found.
  # libstdc++ precedes libtorch.so, because CUDA builds of libtorch.so export functions of an old
  # std::filesystem, which crash when called.
  # Plugins omit the path, because AnyAccel has loaded LibTorch before it loads a plugin.
  target_link_options(anyaccel_torch INTERFACE
    $<BUILD_INTERFACE:$<$<NOT:$<BOOL:$<TARGET_PROPERTY:ANYACCEL_PLUGIN>>>:-Wl,-rpath,${anyaccel_lib}>>
    $<BUILD_INTERFACE:-Wl,--push-state,--no-as-needed,-lstdc++,${anyaccel_lib}/libtorch.so,--pop-state>)
  target_link_libraries(anyaccel_torch INTERFACE
    $<BUILD_INTERFACE:${anyaccel_lib}/libtorch_cpu.so> $<BUILD_INTERFACE:${anyaccel_lib}/libc10.so>)
  target_compile_features(anyaccel_torch INTERFACE cxx_std_20)
endif()
