"""Op modules. Each defines the functions of one op, and is the result of its builder's load()."""


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
