"""As DeepSpeed's package of this name: `GDSBuilder`. AnyAccel has no op of GPUDirect Storage: the builder's load() raises `unsupported`."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "GDSBuilder":
        from . import op_builder
        return op_builder.GDSBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
