"""Arguments of calls whose function is replaced."""

from __future__ import annotations

import libcst as cst

from ..findings import Edit
from ..rules import ANYACCEL, TORCH
from . import devices
from .source import Source
from .uses import literal

# The position of the argument that is a device. torch.cuda accepts devices in any form, and so do
# AnyAccel's methods; DeepSpeed's accept an index.
DEVICE_ARGUMENT = dict.fromkeys(
    ("set_device", "device", "synchronize", "get_device_properties", "get_device_name", "get_device_capability", "current_stream",
     "default_stream", "get_rng_state", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
     "memory_cached", "max_memory_cached", "memory_stats", "mem_get_info", "reset_peak_memory_stats", "reset_max_memory_allocated",
     "reset_max_memory_cached", "Stream"), 0)
DEVICE_ARGUMENT["set_rng_state"] = 1


def place(source: Source, template: str, call: cst.Call, pieces: dict[str, tuple[int, int]]) -> str:
    """Fills `pieces` for `{args}` in a template. Without arguments, the placeholder is removed."""
    if not call.args:
        return template.replace(", {args}", "").replace("{args}, ", "").replace("{args}", "")
    first, last = call.args[0], call.args[-1]
    pieces["args"] = (source.tree.outer(first)[0], source.tree.outer(last.value)[1])
    return template


def edits(source: Source, function: str, call: cst.Call) -> tuple[Edit, ...]:
    """The edits that turn the argument that is a device into the form that the replacement accepts."""
    position = DEVICE_ARGUMENT.get(function)
    if position is None:
        return ()
    for i, arg in enumerate(call.args):
        if arg.star:
            return ()
        if arg.keyword is not None and arg.keyword.value == "device" or arg.keyword is None and i == position:
            return (*_keyword(source, arg, call, function), *_value(source, arg.value, function, call))
    return ()


def _keyword(source: Source, arg: cst.Arg, call: cst.Call, function: str) -> tuple[Edit, ...]:
    """torch.accelerator's functions have positional parameters, and the accelerator's methods call theirs device_index."""
    if arg.keyword is None:
        return ()
    start, end = source.tree.span(arg.keyword)
    if source.target == TORCH:
        return (Edit(start, source.tree.outer(arg.value)[0], ""), ) if function != "Stream" and len(call.args) == 1 else ()
    if function == "Stream" and source.target != ANYACCEL:
        return ()
    return (Edit(start, end, "device_index"), )


def _value(source: Source, value: cst.BaseExpression, function: str, call: cst.Call) -> tuple[Edit, ...]:
    if source.target == TORCH or function == "Stream" and source.target != ANYACCEL:
        return ()
    start, end = source.tree.outer(value)
    text = literal(value)
    if text == "cuda":
        if len(call.args) == 1 and function != "set_device":
            return (Edit(source.tree.outer(call.args[0])[0], end, ""), )
        return (Edit(start, end, "None" if function != "set_device" else f"{source.function}().current_device()"), )
    if text and text.startswith("cuda:") and text[5:].isdigit():
        return (Edit(start, end, text[5:]), )
    kind = devices.kind(source, value)
    if source.target == ANYACCEL and function != "Stream" and kind in (devices.DEVICE, devices.STRING, devices.UNKNOWN):
        return ()  # AnyAccel's methods accept devices in each form
    torch = source.torch(source.names.scope_of(value))
    if kind == devices.DEVICE:
        suffix = ".index" + (" or 0" if function == "set_device" else "")
        return (Edit(end, end, suffix), ) if isinstance(value, (cst.Name, cst.Attribute, cst.Call)) else ()
    if kind in (devices.STRING, devices.UNKNOWN):
        suffix = ").index" + (" or 0" if function == "set_device" else "")
        if devices.maybe_none(source, value):
            suffix += f" if {source.text[start:end]} is not None else None"
        return (Edit(start, start, f"{torch}.device("), Edit(end, end, suffix))
    if devices.is_text_number(source, value):
        return (Edit(start, start, "int("), Edit(end, end, ")"))
    return ()
