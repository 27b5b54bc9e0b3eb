"""Extension ops: a Python builder lists native sources in the extension's folder, and AnyAccel's
build service builds them.
"""

import ctypes
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import sysconfig

import torch

from . import _native
from .errors import make_error

_modules = {}  # keyed by library path, because importing a library again would create a second module


def build_service_of(builder):
    """Return a build-service builder for the sources(), include_paths(), cxx_args(), nvcc_args(),
    libraries_args() and extra_ldflags() of a Python builder.
    """
    text, folder = describe(builder)
    return _native.make_described_builder(text, folder)


def describe(builder):
    """Return (text, folder): an op's description in the format of docs/reference/op-builders.md,
    and the folder that its paths are relative to.
    """
    cls = type(builder)
    sources = [path_of(builder, source) for source in builder.strip_empty_entries(builder.sources())]
    given = list(builder.include_paths()) if _gives(cls, "include_paths") else []
    includes = [_below_root(cls, folder) for folder in builder.strip_empty_entries(given + _prefixed(builder, "_include"))]
    if not sources:
        raise make_error("invalid_argument", cls.__name__, "sources() returns no files")
    folder = os.path.commonpath([os.path.dirname(source) for source in sources] + includes)
    below = [os.path.relpath(path, folder) for path in sources]
    nvcc = " ".join(builder.nvcc_args())
    lines = ["anyaccel_op = 1", f"class_name = {cls.__name__}", f"name = {builder.name()}", "backends = *",
             f"python = {sysconfig.get_paths()['include']}"]
    lines += [f"source = {path}: {nvcc}" if path.endswith(".cu") and nvcc else f"source = {path}" for path in below]
    lines += [f"include = {os.path.relpath(path, folder)}" for path in includes]
    lines += [f"flag = {flag}" for flag in builder.strip_empty_entries(builder.cxx_args())]
    lines += [f"link = {_library(cls, flag)}" for flag in builder.strip_empty_entries([*builder.libraries_args(), *builder.extra_ldflags()])
              if flag not in _SAYS_NOTHING]
    return "\n".join(lines) + "\n", folder


def path_of(builder, source):
    """Return the absolute path of a source.

    Relative paths are relative to the folder of the builder's class, or to its
    `<prefix>_kernel_path`. If no such file exists, they are relative to the current folder, to
    which DeepSpeed extensions copy their sources.
    """
    return _below_root(type(builder), source, *_prefixed(builder, "_kernel_path")[:1])


def _below_root(cls, path, folder=""):
    found = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(inspect.getfile(cls))), folder, path))
    return os.path.abspath(path) if not os.path.exists(found) and os.path.exists(path) else found


def for_setup(builder, extension):
    """Return a setuptools extension with the same sources, for setup.py. `extension` is its class.
    """
    text, folder = describe(builder)
    lines = [line.split(" = ", 1) for line in text.splitlines()]
    values = {key: [os.path.join(folder, value.split(": ")[0]) for other, value in lines if other == key] for key in ("source", "include")}
    return extension(name=builder.absolute_name(), sources=values["source"], include_dirs=values["include"],
                     libraries=[value for key, value in lines if key == "link"],
                     extra_compile_args={"cxx": builder.strip_empty_entries(builder.cxx_args()), "nvcc": list(builder.nvcc_args())})


def functions_of(name, library, namespace):
    """Return the result of load(): the library as a Python module, or the ops that it registered
    with torch."""
    found = _modules.get(library)
    if found is None:
        if hasattr(ctypes.CDLL(library), f"PyInit_{name}"):
            loader = importlib.machinery.ExtensionFileLoader(name, library)
            found = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, library, loader=loader))
            loader.exec_module(found)
        else:
            found = getattr(torch.ops, namespace)
        _modules[library] = found
    return found


def _gives(cls, name):
    return getattr(cls, name) is not getattr(cls._base, name)


def _prefixed(builder, ending):
    """Return the folders in `<prefix>_kernel_path` or `<prefix>_include`, a variable of the
    builder's class or of its module. Functions with such names are helpers of the builder and
    are ignored."""
    module = sys.modules[type(builder).__module__]
    for owner in (builder, module):
        for name in dir(owner):
            value = getattr(owner, name) if name.endswith(ending) else None
            if isinstance(value, (str, os.PathLike)):
                return [os.fspath(value)]
            if isinstance(value, (list, tuple)):
                return [os.fspath(one) for one in value]
    return []


# Flags that are redundant when linking a shared library.
_SAYS_NOTHING = ("-fPIC", "-fpic", "-shared", "-rdynamic", "-Wl,-export-dynamic", "-Wl,--export-dynamic")


def _library(cls, flag):
    if flag.startswith("-l"):
        return flag[2:]
    if flag.startswith("-"):
        raise make_error("unsupported", cls.__name__, "the build service links libraries only by name", got=repr(flag), want="a flag such as -lNAME")
    return flag
