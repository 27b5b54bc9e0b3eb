"""Ops, each as the module-like object that its builder's load() returns.

The modules define the functions; the builders load them.
"""


def __getattr__(name):
    import importlib
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name is None:
            raise AttributeError(str(error)) from None
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no op {name!r}") from None
