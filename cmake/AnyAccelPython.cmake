# Finds the Python for which the package is built: the Python whose torch is this build's LibTorch,
# because torch's Python library works with only one version of Python. Sets
# ANYACCEL_PYTHON_EXECUTABLE, ANYACCEL_PYTHON_INCLUDE, ANYACCEL_PYTHON_SUFFIX (of extension modules)
# and ANYACCEL_PYTHON_VERSION, or ANYACCEL_PYTHON_ERROR on failure.
set(ANYACCEL_PYTHON_ERROR "LibTorch in ${ANYACCEL_TORCH_PREFIX} has no Python library")
if(EXISTS ${ANYACCEL_TORCH_PREFIX}/lib/libtorch_python.so)
  set(ANYACCEL_PYTHON_ERROR "cannot find Python")
  find_program(anyaccel_python3 NAMES python3 python)
  foreach(candidate "${ANYACCEL_PYTHON}" "$ENV{VIRTUAL_ENV}/bin/python3" "${ANYACCEL_TORCH_VENV}/bin/python3"
                    "${anyaccel_python3}")
    if(candidate AND EXISTS "${candidate}" AND ANYACCEL_PYTHON_ERROR)
      execute_process(
        COMMAND "${candidate}" ${ANYACCEL_PYTHON_OPTIONS} -c
          "import importlib.util as u, sysconfig as s; t = u.find_spec('torch'); print(s.get_path('include'), \
s.get_config_var('EXT_SUFFIX'), s.get_python_version(), t.submodule_search_locations[0] if t else 'none', sep=';')"
        OUTPUT_VARIABLE anyaccel_found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      list(LENGTH anyaccel_found anyaccel_parts)
      if(anyaccel_parts EQUAL 4)
        list(GET anyaccel_found 0 ANYACCEL_PYTHON_INCLUDE)
        list(GET anyaccel_found 1 ANYACCEL_PYTHON_SUFFIX)
        list(GET anyaccel_found 2 ANYACCEL_PYTHON_VERSION)
        list(GET anyaccel_found 3 anyaccel_found)
        get_filename_component(anyaccel_found "${anyaccel_found}" REALPATH)
        get_filename_component(anyaccel_wanted "${ANYACCEL_TORCH_PREFIX}" REALPATH)
        set(ANYACCEL_PYTHON_EXECUTABLE "${candidate}")
        if(NOT anyaccel_found STREQUAL anyaccel_wanted)
          set(ANYACCEL_PYTHON_ERROR "no Python imports the torch in ${ANYACCEL_TORCH_PREFIX}")
        elseif(NOT EXISTS "${ANYACCEL_TORCH_PREFIX}/_C${ANYACCEL_PYTHON_SUFFIX}")
          set(ANYACCEL_PYTHON_ERROR "the torch in ${ANYACCEL_TORCH_PREFIX} is not for Python ${ANYACCEL_PYTHON_VERSION}")
        elseif(NOT EXISTS "${ANYACCEL_PYTHON_INCLUDE}/Python.h")
          set(ANYACCEL_PYTHON_ERROR "Python.h of Python ${ANYACCEL_PYTHON_VERSION} is missing (Debian: python3-dev)")
        else()
          set(ANYACCEL_PYTHON_ERROR "")
        endif()
      endif()
    endif()
  endforeach()
endif()
if(ANYACCEL_SANITIZE AND NOT ANYACCEL_PYTHON_ERROR)
  set(ANYACCEL_PYTHON_ERROR "Python without sanitizers cannot load libraries with sanitizers")
endif()
if(NOT ANYACCEL_PYTHON_ERROR)
  set(ANYACCEL_PYTHON_DIR ${CMAKE_INSTALL_LIBDIR}/python${ANYACCEL_PYTHON_VERSION}/site-packages
      CACHE STRING "Install folder of the Python package, relative to the prefix")
endif()
