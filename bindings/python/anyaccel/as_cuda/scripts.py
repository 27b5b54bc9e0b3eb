"""Redirects CUDA devices in TorchScript programs and C++ code."""

from __future__ import annotations

import typing

import torch

from .devices import CUDA, Devices
from .patches import Patches
from .usage import Usage

_FACTORIES = ("empty.memory_format", "empty_strided")


def redirect_factories(devices: Devices, usage: Usage, patches: Patches) -> None:
    """Register the ops that create CUDA tensors, for builds of torch without them. All other factory
    functions call these two. Function modes do not intercept TorchScript and C++."""
    if torch.backends.cuda.is_built():
        return
    library = torch.library.Library("aten", "IMPL")

    def implement(name: str) -> None:
        packet, _, overload = name.partition(".")
        function = getattr(getattr(torch.ops.aten, packet), overload or "default")

        def make(*arguments: typing.Any, device: typing.Any = None, **options: typing.Any) -> torch.Tensor:
            usage.count(f'device "{device}" in TorchScript or C++')
            return function(*arguments, device=devices.of(device), **options)

        library.impl(name, make, CUDA.upper())

    for name in _FACTORIES:
        implement(name)
    patches.on_restore(library._destroy)
