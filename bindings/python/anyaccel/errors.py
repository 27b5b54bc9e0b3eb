"""The exception that everything in AnyAccel raises."""


CODES = ("invalid_argument", "invalid_state", "unsupported", "unavailable", "not_found", "out_of_memory", "build_failed", "io",
         "corrupt", "timeout", "version_mismatch", "device_error", "interrupted", "internal")  # in the order of the C++ enum


class Error(RuntimeError):
    """What failed; its text reads `[where] what; got X, want Y; do Z`.

    `code` says what kind of failure it is, in one of these words: invalid_argument, invalid_state, unsupported,
    unavailable, not_found, out_of_memory, build_failed, io, corrupt, timeout, version_mismatch, device_error,
    interrupted, internal. Branch on it and never on the text.
    """

    def __init__(self, message, code="internal"):
        super().__init__(message)
        self.code = code


def make_error(code, where, what, got="", want="", hint=""):
    """An error in the form that the C++ library gives its own."""
    text = f"[{where}] {what}"
    if got or want:
        text += "; " + ", ".join(part for part in (got and f"got {got}", want and f"want {want}") if part)
    return Error(text + (f"; {hint}" if hint else ""), code)
