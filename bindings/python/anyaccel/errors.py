"""AnyAccel's exception type."""

from ._untrusted_text import printable_text

CODES = ("invalid_argument", "invalid_state", "unsupported", "unavailable", "not_found", "out_of_memory", "build_failed", "io",
         "corrupt", "timeout", "version_mismatch", "device_error", "interrupted", "internal")  # in the order of the C++ enum


class Error(RuntimeError):
    """An error whose text has the form `[where] what; got X, want Y; do Z`.

    `code` is the kind of failure: invalid_argument, invalid_state, unsupported, unavailable,
    not_found, out_of_memory, build_failed, io, corrupt, timeout, version_mismatch, device_error,
    interrupted or internal. Programs should branch on the code and never on the text.
    """

    def __init__(self, message: str, code: str = "internal") -> None:
        super().__init__(printable_text(message))
        self.code = code


def make_error(code: str, where: str, what: str, got: str = "", want: str = "", hint: str = "") -> Error:
    """Return an Error whose text has the same form as in the C++ library."""
    text = f"[{where}] {what}"
    if got or want:
        text += "; " + ", ".join(part for part in (got and f"got {got}", want and f"want {want}") if part)
    return Error(text + (f"; {hint}" if hint else ""), code)


def parts_of(error):
    """Convert an exception from a Python backend for C++: (index of the code in CODES, location,
    text). If the location is empty, C++ supplies it.
    """
    import torch
    if isinstance(error, Error):
        where, closing, text = str(error).removeprefix("[").partition("] ")
        return (CODES.index(error.code), where, text) if closing else (CODES.index(error.code), "", str(error))
    kinds = ((torch.OutOfMemoryError, "out_of_memory"), (NotImplementedError, "unsupported"),
             (getattr(torch, "AcceleratorError", ()), "device_error"))
    code = next((code for kind, code in kinds if isinstance(error, kind)), "internal")
    place = ""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is not None:
        place = f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})"
    return CODES.index(code), "", f"its Python code raised {type(error).__name__}: {error}{place}"
