"""Replaces files atomically."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import tempfile
from collections.abc import Iterator


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Block SIGINT and SIGTERM. Pending signals are delivered afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    old = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@uninterrupted()
def replace(path: str, data: str | bytes, mode: int | None = None) -> None:
    """Write a file through a temporary file in its folder, so that the file always has its old or
    its new content. Ctrl-C takes effect afterwards, so it leaves no temporary file. `mode`: the
    file's permissions; by default those of a new file.
    """
    path = os.path.abspath(path)
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    descriptor, name = tempfile.mkstemp(prefix=".anyaccel-", dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is None:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def replace_source(path: str, old: bytes, new: bytes) -> None:
    """Replace a source file and keep its permissions and owner. A symbolic link keeps pointing to
    the file. Raises OSError, in particular if the file is read-only or no longer contains `old`.
    """
    path = os.path.realpath(path)
    status = os.stat(path)
    if not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(path, os.W_OK):
        raise PermissionError(f"the file is read-only: {path}")
    with open(path, "rb") as file:
        if file.read() != old:
            raise OSError(f"the file changed while it was examined: {path}")
    replace(path, new, stat.S_IMODE(status.st_mode))
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(OSError):
            os.chown(path, status.st_uid, status.st_gid)
            os.chmod(path, stat.S_IMODE(status.st_mode))
