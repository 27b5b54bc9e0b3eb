"""Reads untrusted files, following the same rules as read_file() in src/base/file.h."""
import os
import stat

from .errors import make_error


def read_regular(path, limit: int = 64 << 20) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Never blocks. Raises `io` for a FIFO, device, folder or socket, `corrupt` for a larger file, and
    OSError for system errors.
    """
    path = os.fspath(path)
    mode = os.stat(path).st_mode  # before opening, because opening a device may have side effects
    if stat.S_ISREG(mode):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with open(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            content = file.read(limit + 1) if stat.S_ISREG(mode) else b""
    if not stat.S_ISREG(mode):
        raise make_error("io", "read_file", f"{path} is not a regular file")
    if len(content) > limit:
        raise make_error("corrupt", "read_file", f"{path} is too large", want=f"at most {limit} bytes")
    return content
