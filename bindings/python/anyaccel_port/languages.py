"""Which finder examines a file, by its name or its first line.

A finder is a module with `find(text, file, target)` and `fix(text, findings, target)`. Finders are
imported when the first file of their language is found, so each language needs only its own
packages.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import re
import types


@dataclasses.dataclass(frozen=True)
class Language:
    """A kind of file. `comment`: a regular expression for the start of a comment, or ""."""

    name: str
    title: str
    module: str
    comment: str = "#"
    long_lines: bool = False  # ordinary files can be large and have very long lines


PYTHON = Language("python", "Python", "python")
NOTEBOOK = Language("notebook", "Jupyter notebook", "notebook", long_lines=True)
CPP = Language("cpp", "C++ or CUDA", "cpp", "//|/\\*")
CMAKE = Language("cmake", "CMake", "cmake")
SHELL = Language("shell", "shell, Dockerfile or Makefile", "shell")
CONFIG = Language("config", "configuration", "config", "#|;|//")
JSON = Language("json", "JSON", "config", "")
REQUIREMENTS = Language("requirements", "requirements", "requirements")
ALL = (PYTHON, NOTEBOOK, CPP, CMAKE, SHELL, CONFIG, JSON, REQUIREMENTS)

_SUFFIXES = {
    PYTHON: ".py .pyi .pyw",
    NOTEBOOK: ".ipynb",
    CPP: ".c .cc .cpp .cxx .c++ .cu .cuh .h .hh .hpp .hxx .h++ .inl .ipp .tpp",
    CMAKE: ".cmake",
    SHELL: ".sh .bash .zsh .ksh .slurm .sbatch .mk .dockerfile .env",
    CONFIG: ".yaml .yml .toml .ini .cfg .conf",
    JSON: ".json",
}
_BY_SUFFIX = {suffix: language for language, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_BY_NAME = tuple((re.compile(pattern), language) for pattern, language in (
    (r"cmakelists\.txt|.*\.cmake\.in", CMAKE),
    (r"(gnu)?makefile|makefile\..*|(docker|container)file|(docker|container)file\..*", SHELL),
    (r"requirements.*\.(txt|in)|(.*[-_])?(requirements|constraints)([-_].*)?\.(txt|in)|(.*[-_])?environment([-_].*)?\.ya?ml|"
     r"conda.*\.ya?ml|setup\.cfg|pyproject\.toml|pipfile", REQUIREMENTS),
))
_SHEBANG = re.compile(rb"#!.*?\b(?:(python[0-9.]*)|(?:ba|da|z|k)?sh)\b")


def language_of(path: str) -> Language | None:
    """The language of a file, or None if its kind is not examined."""
    name = os.path.basename(path).lower()
    for pattern, language in _BY_NAME:
        if pattern.fullmatch(name):
            return language
    suffix = os.path.splitext(name)[1]
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if os.path.basename(os.path.dirname(path)) == "requirements" and suffix in (".txt", ".in"):
        return REQUIREMENTS
    return None if suffix else _by_shebang(path)


def _by_shebang(path: str) -> Language | None:
    try:
        with open(path, "rb") as file:
            if file.read(2) != b"#!":
                return None
            match = _SHEBANG.match(b"#!" + file.readline(200))
    except OSError:
        return None
    return None if match is None else PYTHON if match[1] else SHELL


class MissingPackage(Exception):
    """A Python package that a finder needs is not installed."""


@functools.cache
def finder(module: str) -> types.ModuleType:
    """Import a finder. Raises MissingPackage."""
    try:
        return importlib.import_module("." + module, __package__)
    except ModuleNotFoundError as error:
        package = (error.name or "unknown").split(".")[0]
        if package == __package__:
            raise
        raise MissingPackage(package) from error
