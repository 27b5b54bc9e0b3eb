"""Accepts DeepSpeed's argument names if AnyAccel uses different ones."""

import functools


def also_named(**names):
    """Return a decorator that lets a function also accept DeepSpeed's keywords. `names` maps each
    of them to AnyAccel's keyword.
    """

    def decorate(call):

        @functools.wraps(call)
        def renamed(*args, **kwargs):
            for theirs, ours in names.items():
                if theirs in kwargs:
                    if ours in kwargs:
                        raise TypeError(f"{call.__name__}() got both {theirs!r} and {ours!r}, which are the same argument")
                    kwargs[ours] = kwargs.pop(theirs)
            return call(*args, **kwargs)

        renamed.also_named = names
        return renamed

    return decorate
