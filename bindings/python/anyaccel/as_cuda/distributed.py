"""Redirects torch.distributed: the backend "nccl", and devices of process groups and meshes."""

from __future__ import annotations

import importlib
import typing

import torch
import torch.distributed

from .devices import CUDA
from .torch_parts import TorchParts

NCCL = "nccl"


class Distributed:
    """Patches torch.distributed."""

    def __init__(self, parts: TorchParts, accelerator: typing.Any) -> None:
        self._parts = parts
        self._accelerator = accelerator

    def install(self) -> None:
        """Install the patches, if torch has torch.distributed."""
        if not torch.distributed.is_available():
            return
        core = importlib.import_module("torch.distributed.distributed_c10d")
        mesh = importlib.import_module("torch.distributed.device_mesh")
        wrap = self._parts.wrap
        for place in (core, torch.distributed):
            for name in ("init_process_group", "new_group"):
                wrap(place, name, "backend", self.backend)
                wrap(place, name, "device_id", self.device_id)
        wrap(mesh.DeviceMesh, "__init__", "device_type", self._parts.type_of)
        for place in (mesh, torch.distributed):
            wrap(place, "init_device_mesh", "device_type", self._parts.type_of)

    def backend(self, name: typing.Any) -> typing.Any:
        """The accelerator's communication backend for "nccl" and for "cpu:gloo,cuda:nccl"."""
        if not isinstance(name, str) or NCCL not in name.lower() and CUDA not in name.lower():
            return name
        self._parts.count("nccl")
        own, kind = self._accelerator.communication_backend_name(), self._accelerator.device_type()
        found = {}
        for part in name.lower().split(","):
            device, colon, backend = part.partition(":")
            if not colon:
                return own
            found[kind if device == CUDA else device] = own if backend == NCCL else backend
        return ",".join(f"{device}:{backend}" for device, backend in found.items())

    def device_id(self, device: typing.Any) -> typing.Any:
        """The accelerator's device, or None for the CPU: this argument needs an index, and the CPU has none."""
        return None if self._accelerator.device_type() == "cpu" else self._parts.device(device)
