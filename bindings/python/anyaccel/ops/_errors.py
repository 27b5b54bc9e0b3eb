"""Converts op errors to anyaccel.Error."""

import functools

from ..errors import CODES, Error


def telling(code_of):
    """Return a decorator that converts op errors, which torch raises as RuntimeError, to
    `anyaccel.Error`. `code_of(message)` returns the number of the error's code, or -1 if the error
    comes from torch itself.
    """

    def decorate(call):
        @functools.wraps(call)
        def checked(*args, **kwargs):
            try:
                return call(*args, **kwargs)
            except RuntimeError as error:
                code = code_of(str(error)) if type(error) is RuntimeError else -1
                if code < 0:
                    raise
                raise Error(str(error), CODES[code]) from None
        return checked

    return decorate
