"""As DeepSpeed's package of this name: `DeepCompileBuilder`. AnyAccel has no op of DeepCompile: the builder's load() raises `unsupported`."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DeepCompileBuilder":
        from . import op_builder
        return op_builder.DeepCompileBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
