"""Counts the program's calls of torch functions that move or load many tensors."""

from __future__ import annotations

import functools
import typing

import torch

from .devices import CUDA
from .patches import Patches
from .usage import Usage

# (owners, function, name under which its calls are counted). If the name is empty, each name that
# the function uses is counted once per call.
_FUNCTIONS: "tuple[tuple[tuple[object, ...], str, str], ...]" = (
    ((torch.nn.Module, ), CUDA, "Module.cuda"),
    ((torch.nn.Module, ), "to", ""),
    ((torch.nn.Module, ), "to_empty", ""),
    ((torch, torch.serialization), "load", ""),
)


def count_calls(usage: Usage, patches: Patches) -> None:
    """Make each call of these functions count once."""
    for places, name, counted in _FUNCTIONS:
        call = _once(usage, getattr(places[0], name), counted)
        for place in places:
            patches.set(place, name, call)


def _once(usage: Usage, function: typing.Callable, counted: str) -> typing.Callable:

    @functools.wraps(function)
    def call(*arguments: typing.Any, **options: typing.Any) -> typing.Any:
        if torch.compiler.is_compiling():
            return function(*arguments, **options)
        with usage.one_call(counted):
            return function(*arguments, **options)

    return call
