# A wheel (pyproject.toml): the torch that it belongs to is that of the Python that runs pip. Build isolation hides that
# Python's packages by Python's own variables, and -E ignores those. Sets Torch_DIR, ANYACCEL_PYTHON and ANYACCEL_PYTHON_OPTIONS.
set(ANYACCEL_PYTHON "${Python_EXECUTABLE}")
if(NOT ANYACCEL_PYTHON)
  set(ANYACCEL_PYTHON "${PYTHON_EXECUTABLE}")
endif()
set(ANYACCEL_PYTHON "${ANYACCEL_PYTHON}" CACHE FILEPATH "Python interpreter whose torch is used" FORCE)
# Looked for each time: the build folder may be that of an earlier wheel, for another Python.
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
  message(FATAL_ERROR "the wheel belongs to a torch, and ${ANYACCEL_PYTHON} has none; `pip install 'torch>=2.11,<2.14'` first. \
Where the installer builds with a Python of its own (uv, python -m build), give it --no-build-isolation or --no-isolation, after \
`pip install scikit-build-core ninja`")
endif()
set(Torch_DIR "${anyaccel_wheel_torch}/share/cmake/Torch" CACHE PATH "LibTorch, or its share/cmake/Torch" FORCE)
# lib and bin lie in the package's folder, beside torch's own.
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../../torch/lib")
