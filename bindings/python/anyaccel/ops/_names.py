"""DeepSpeed's names of arguments, where ours differ."""

import functools


def also_named(**names):
    """A decorator: callers may use DeepSpeed's keyword, too. `names` maps it to ours."""

    def decorate(call):

        @functools.wraps(call)
        def renamed(*args, **kwargs):
            for theirs, ours in names.items():
                if theirs in kwargs:
                    if ours in kwargs:
                        raise TypeError(f"{call.__name__}() got both {theirs!r} and {ours!r}, which are one argument")
                    kwargs[ours] = kwargs.pop(theirs)
            return call(*args, **kwargs)

        renamed.also_named = names
        return renamed

    return decorate
