"""Errors of ops under the name that all of AnyAccel's have."""

import functools

from ..errors import CODES, Error


def telling(code_of):
    """A decorator: the RuntimeError that torch makes of an op's error becomes `anyaccel.Error`. `code_of(message)` has its kind, -1
    for an error that is torch's own."""

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
