"""Counterpart of DeepSpeed's package `deepspeed.ops.compile`: `DeepCompileBuilder`, whose load()
raises `unsupported`."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DeepCompileBuilder":
        from . import op_builder
        return op_builder.DeepCompileBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
