"""Converts errors of ops to anyaccel.Error."""

import functools

from ..errors import CODES, Error


def telling(code_of):
    """Return a decorator that converts the RuntimeError that torch raises for an op's error to
    `anyaccel.Error`. `code_of(message)` returns the number of the error's code, or -1 if the error
    is one of torch's own.
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
