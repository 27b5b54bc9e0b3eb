# Finds the torch for a wheel (pyproject.toml): that of the Python that runs pip. Build isolation
# hides this Python's packages with environment variables. The option -E makes Python ignore these
# variables. Sets Torch_DIR, ANYACCEL_PYTHON and ANYACCEL_PYTHON_OPTIONS.
set(ANYACCEL_PYTHON "${Python_EXECUTABLE}")
if(NOT ANYACCEL_PYTHON)
  set(ANYACCEL_PYTHON "${PYTHON_EXECUTABLE}")
endif()
set(ANYACCEL_PYTHON "${ANYACCEL_PYTHON}" CACHE FILEPATH "Python interpreter whose torch is used" FORCE)
# Searches again in each run, because the build folder may be left from a wheel for a different
# Python.
set(anyaccel_wheel_torch "")
foreach(option "" "-E")
  if(NOT anyaccel_wheel_torch)
    set(ANYACCEL_PYTHON_OPTIONS ${option})
    execute_process(
      COMMAND "${ANYACCEL_PYTHON}" ${option} -c
        "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE anyaccel_wheel_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endforeach()
if(NOT anyaccel_wheel_torch)
  message(FATAL_ERROR "cannot find torch in ${ANYACCEL_PYTHON}, which the wheel requires. Run `pip install 'torch>=2.11,<2.14'`. \
If the installer builds with its own Python (uv, python -m build), run `pip install scikit-build-core ninja` and pass \
--no-build-isolation or --no-isolation.")
endif()
set(Torch_DIR "${anyaccel_wheel_torch}/share/cmake/Torch" CACHE PATH "LibTorch, or its share/cmake/Torch" FORCE)
# lib and bin are in the package's folder, which is next to torch's.
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../../torch/lib")
