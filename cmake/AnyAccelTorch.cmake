# Finds LibTorch and makes the target anyaccel_torch; used by our build and, installed, by anyaccelConfig.cmake.
# LibTorch's own package file is not used: it stops on machines whose CUDA toolkit is absent or of another
# version, and we compile no CUDA through it.
#
# Where to look, first that is there: -DTorch_DIR (a LibTorch's folder, or its share/cmake/Torch), the environment's
# Torch_DIR, ANYACCEL_TORCH_RECORDED (what an installed AnyAccel was built with), the torch of -DANYACCEL_PYTHON,
# of an active virtual environment, of .venv in our source tree, of python3.
# Sets ANYACCEL_TORCH_PREFIX and ANYACCEL_TORCH_VERSION; or ANYACCEL_TORCH_ERROR, when it is not found or not fit.
set(ANYACCEL_TORCH_ERROR "")
set(ANYACCEL_TORCH_PREFIX "")
set(ANYACCEL_TORCH_VERSION "")
set(Torch_DIR "$ENV{Torch_DIR}" CACHE PATH "LibTorch, or its share/cmake/Torch")
set(ANYACCEL_PYTHON "" CACHE FILEPATH "Python interpreter whose torch is used")

# The include folder decides: a package may have moved its CMake files.
foreach(candidate "${Torch_DIR}/../../.." "${Torch_DIR}" "${ANYACCEL_TORCH_RECORDED}")
  get_filename_component(anyaccel_found "${candidate}" ABSOLUTE)
  if(NOT ANYACCEL_TORCH_PREFIX AND candidate MATCHES "[A-Za-z0-9]" AND EXISTS "${anyaccel_found}/include/ATen")
    set(ANYACCEL_TORCH_PREFIX "${anyaccel_found}")
  endif()
  if(Torch_DIR AND candidate STREQUAL Torch_DIR AND NOT ANYACCEL_TORCH_PREFIX)
    set(ANYACCEL_TORCH_ERROR "Torch_DIR=${Torch_DIR} has no LibTorch with headers; want <libtorch>/share/cmake/Torch")
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
    # Kept, so that another python3 on the next PATH does not change a configured build.
    set(Torch_DIR "${ANYACCEL_TORCH_PREFIX}/share/cmake/Torch" CACHE PATH "LibTorch, or its share/cmake/Torch" FORCE)
  else()
    set(ANYACCEL_TORCH_ERROR "LibTorch was not found; give -DTorch_DIR=<libtorch>/share/cmake/Torch or \
-DANYACCEL_PYTHON=<python that has torch>")
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
    set(ANYACCEL_TORCH_ERROR "LibTorch in ${ANYACCEL_TORCH_PREFIX} has no version header; give another Torch_DIR")
  elseif(anyaccel_wanted AND NOT anyaccel_wanted VERSION_EQUAL anyaccel_found)
    # LibTorch's C++ interface changes with every minor version.
    set(ANYACCEL_TORCH_ERROR "this AnyAccel was built with LibTorch ${ANYACCEL_TORCH_BUILT_WITH}, but LibTorch \
${ANYACCEL_TORCH_VERSION} was found in ${ANYACCEL_TORCH_PREFIX}; give -DTorch_DIR of a ${anyaccel_wanted}, or build \
AnyAccel with ${ANYACCEL_TORCH_VERSION}")
  elseif(ANYACCEL_TORCH_VERSION VERSION_LESS 2.11 OR ANYACCEL_TORCH_VERSION VERSION_GREATER_EQUAL 2.14)
    set(ANYACCEL_TORCH_ERROR
        "LibTorch ${ANYACCEL_TORCH_VERSION} in ${ANYACCEL_TORCH_PREFIX} is not supported; want 2.11 to 2.13")
  endif()
endif()

if(NOT ANYACCEL_TORCH_ERROR AND NOT TARGET anyaccel_torch)
  set(anyaccel_lib ${ANYACCEL_TORCH_PREFIX}/lib)
  add_library(anyaccel_torch INTERFACE)
  # Paths are this machine's: they are not exported, the installed package file looks again.
  target_include_directories(anyaccel_torch SYSTEM INTERFACE
    $<BUILD_INTERFACE:${ANYACCEL_TORCH_PREFIX}/include>
    $<BUILD_INTERFACE:${ANYACCEL_TORCH_PREFIX}/include/torch/csrc/api/include>)
  # libtorch.so needs the libraries of the devices that this LibTorch was built for; none of our symbols does, so
  # without no-as-needed the linker would drop it and a GPU would not be seen. The C++ library stands before it: libtorch.so of
  # CUDA builds exports parts of an old std::filesystem, which crash.
  target_link_options(anyaccel_torch INTERFACE $<BUILD_INTERFACE:-Wl,-rpath,${anyaccel_lib}>
    $<BUILD_INTERFACE:-Wl,--push-state,--no-as-needed,-lstdc++,${anyaccel_lib}/libtorch.so,--pop-state>)
  target_link_libraries(anyaccel_torch INTERFACE
    $<BUILD_INTERFACE:${anyaccel_lib}/libtorch_cpu.so> $<BUILD_INTERFACE:${anyaccel_lib}/libc10.so>)
  target_compile_features(anyaccel_torch INTERFACE cxx_std_20)
endif()
