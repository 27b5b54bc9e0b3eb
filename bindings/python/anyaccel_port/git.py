"""Asks git about files. Settings of the examined repository cannot run programs."""

from __future__ import annotations

import os
import subprocess

from .errors import PortError
from .escaped import quoted_text

_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false")


def _git(folder: str, *arguments: str) -> subprocess.CompletedProcess | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(["git", *_SAFE, "-C", folder, *arguments],
                              stdin=subprocess.DEVNULL,
                              capture_output=True,
                              env=environment,
                              check=False)
    except OSError:
        return None  # git is not installed


def listed(folder: str) -> list[str] | None:
    """The files below a folder that git tracks or does not ignore, relative to the folder; None if
    the folder is not in a git tree, or is itself ignored."""
    result = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", ".")
    if result is None or result.returncode != 0 or not result.stdout:
        return None
    return [os.fsdecode(name) for name in result.stdout.split(b"\0") if name]


def _in_git(folder: str) -> bool:
    """Whether a folder or one above it has a .git, even if git refuses to read it."""
    folder = os.path.realpath(folder)
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True


def require_clean(paths: list[str]) -> None:
    """Raise PortError if files below the paths have uncommitted changes."""
    for path in paths:
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        if not _in_git(folder):
            continue
        result = _git(folder, "status", "--porcelain", "-z", "--untracked-files=all", "--",
                      "." if os.path.isdir(path) else os.path.basename(path))
        if result is None or result.returncode != 0:
            reason = "git is not installed" if result is None else quoted_text(result.stderr.strip().split(b"\n")[0])
            raise PortError(
                f"cannot tell whether {quoted_text(path)} has uncommitted changes: {reason}. Pass --force to fix the files anyway.")
        changed = [entry for entry in result.stdout.split(b"\0") if entry]
        if changed:
            files = f"{len(changed)} files, the first is " if len(changed) > 1 else ""
            raise PortError(
                f"{quoted_text(path)} has uncommitted changes ({files}{quoted_text(changed[0][3:])}). Commit or stash them, "
                "or pass --force to fix the files anyway.")
