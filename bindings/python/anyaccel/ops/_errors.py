"""Errors of ops under the name that all of AnyAccel's have."""

import functools

from ..errors import CODES, Error


def telling(last_code):
    """A decorator: the RuntimeError that torch makes of an op's error becomes `anyaccel.Error`; `last_code()` has its kind."""

    def decorate(call):
        @functools.wraps(call)
        def checked(*args, **kwargs):
            try:
                return call(*args, **kwargs)
            except RuntimeError as error:
                if type(error) is not RuntimeError or not str(error).startswith("["):
                    raise
                raise Error(str(error), CODES[last_code()]) from None
        return checked

    return decorate
