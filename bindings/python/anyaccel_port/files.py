"""Finds the files to examine."""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence

from . import git, languages
from .analysis import File
from .errors import UsageError
from .escaped import quoted_text

# Folders of tools and of installed packages, which are skipped outside git.
_SKIPPED = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", "site-packages", ".tox", ".nox",
                      ".mypy_cache", ".pytest_cache", ".ruff_cache", ".eggs", ".ipynb_checkpoints"))


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern names a file or a folder above it. A pattern without `/` matches any part of
    the path. `name` uses `/`."""
    pattern = pattern.strip("/") if pattern != "/" else pattern
    parts = name.split("/")
    if "/" not in pattern:
        return any(fnmatch.fnmatchcase(part, pattern) for part in parts)
    return any(fnmatch.fnmatchcase("/".join(parts[:end]), pattern) for end in range(1, len(parts) + 1))


def _walk(folder: str) -> Iterator[str]:
    """Files below a folder. Symbolic links are not followed, so links cannot form loops."""
    for current, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each not in _SKIPPED]
        for name in names:
            yield os.path.join(current, name)


def _below(folder: str, seen: set[str]) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    names = git.listed(folder)
    if names is None:
        yield from _walk(folder)
        return
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            yield from _below(path, seen)  # a submodule or another repository
        else:
            yield path


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def discover(
    paths: Sequence[str],
    root: str,
    exclude: Sequence[str] = (),
    off: Sequence[tuple[str, frozenset[str]]] = (),
    own: Sequence[str | None] = ()
) -> list[File]:
    """The files to examine, in order of their names.

    root: the folder that patterns are relative to. exclude: patterns of files to skip. off:
    pairs of a pattern and the ids of rules that are disabled in matching files. Files of an unknown
    kind are included only if `paths` names them, as pre-commit does with every changed file.
    own: files of this tool, such as the baseline, which contains the findings.
    """
    found: dict[str, File] = {}
    own_files = {os.path.realpath(path) for path in own if path}
    for path in paths:
        if not os.path.exists(path):
            raise UsageError(f"no such file or folder: {quoted_text(path)}")
        folder = os.path.isdir(path)
        for each in _below(path, set()) if folder else (path, ):
            if folder:
                try:
                    if not stat.S_ISREG(os.lstat(each).st_mode):
                        continue
                except OSError:
                    continue  # deleted, but still in git's index
            real = os.path.realpath(each)
            if real in found or real in own_files:
                continue
            name = os.path.relpath(real, os.path.realpath(root)).replace(os.sep, "/")
            if any(matches(name, pattern) for pattern in exclude):
                continue
            language = languages.language_of(each)
            if language is None and folder:
                continue
            disabled = frozenset(rule for pattern, ids in off if matches(name, pattern) for rule in ids)
            found[real] = File(each, _shown(each), language, disabled)
    return sorted(found.values(), key=lambda file: file.shown)
