"""Counterpart of DeepSpeed's package `deepspeed.ops.gds`: `GDSBuilder`, whose load() raises
`unsupported`."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "GDSBuilder":
        from . import op_builder
        return op_builder.GDSBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
