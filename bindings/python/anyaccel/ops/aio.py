"""Counterpart of DeepSpeed's package `deepspeed.ops.aio`: `AsyncIOBuilder`."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "AsyncIOBuilder":
        from . import op_builder
        return op_builder.AsyncIOBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
