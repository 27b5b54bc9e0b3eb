"""Names of the modules that a project's setup.py builds from CUDA sources."""

from __future__ import annotations

import functools
import os
import re

_LEVELS = 6
_MAX_BYTES = 1 << 20
_NAME = re.compile(r"\bCUDAExtension\s*\(\s*(?:name\s*=\s*)?[rR]?(?P<quote>[\"'])(?P<name>[\w.]+)(?P=quote)")


@functools.cache
def _declared(folder: str) -> frozenset[str]:
    """The names in the setup.py of a folder."""
    try:
        with open(os.path.join(folder, "setup.py"), "rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return frozenset()
    return frozenset(match["name"] for match in _NAME.finditer(text))


@functools.cache
def _of_folder(folder: str, levels: int) -> frozenset[str]:
    above = os.path.dirname(folder)
    if levels == 0 or above == folder or os.path.exists(os.path.join(folder, ".git")):
        return _declared(folder)
    return _declared(folder) | _of_folder(above, levels - 1)


def names(path: str) -> frozenset[str]:
    """The names of the modules of CUDAExtension() in the setup.py next to a file or in a folder above
    it, up to the root of the repository."""
    return _of_folder(os.path.dirname(os.path.abspath(path)), _LEVELS)


def may_match(data: bytes, modules: frozenset[str]) -> bool:
    """Whether a source contains the last part of a module's name."""
    return any(name.rsplit(".", 1)[-1].encode() in data for name in modules)
