"""Namespaces, aliases and definitions of a C++ source."""

from __future__ import annotations

import re

_SPACES = ("at", "c10", "torch")
_MEMBERS = frozenset(
    ("is_available", "device_count", "synchronize", "current_device", "set_device", "manual_seed", "manual_seed_all", "getNumGPUs",
     "cudnn_is_available", "device_synchronize", "ExchangeDevice", "MaybeExchangeDevice", "MaybeSetDevice", "getDeviceProperties",
     "warp_size", "getStreamFromPool", "getStreamFromExternal"))


class Names:
    """The meaning of names in a file. `defined`: names of macros, functions and classes that the file
    itself defines. `opened`: the members of at::cuda are visible without their namespace. `torch`: the
    same for the members of at, c10 or torch."""

    def __init__(self, code: str):
        self.defined = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", code, re.M))
        self.defined |= set(re.findall(r"\b(?:class|struct)\s+(\w+)\s*(?:final\s*)?(?:[:{]|$)", code))
        self.defined |= set(
            re.findall(r"^(?:[\w:<>,*&\[\]]+[ \t*&]+)+(cuda\w+|nccl\w+|cublas\w+)[ \t]*\([^;{}]*\)\s*\{", code, re.M))
        self.opened = bool(
            re.search(
                r"\busing\s+namespace\s+(?:::)?(?:(?:at|c10|torch)::)?cuda\s*;|\bnamespace\s+(?:at|c10)\s*(?:::\s*cuda)?\s*\{",
                code))
        self.torch = bool(re.search(r"\busing\s+namespace\s+(?:::)?(?:at|c10|torch)\s*;|\bnamespace\s+(?:at|c10|torch)\s*[:{]|"
            r"\busing\s+(?:at|c10|torch)::kCUDA\b|"
                                    r"\busing\s+(?:at|c10|torch)::DeviceType\b|\bnamespace\s+cuda\s*=", code))  # yapf: disable

    def resolve(self, name: str) -> str | None:
        """The qualified name, or None if it is something else."""
        name = re.sub(r"\s+", "", name).removeprefix("::")
        first, _, rest = name.partition("::")
        if first in _SPACES:
            return name
        if name in ("kCUDA", "hasCUDA", "hasCuDNN", "CUDAGeneratorImpl", "PhiloxCudaState") or name.startswith("globalContext"):
            return "at::" + name if name != "kCUDA" or self.torch else None
        if first == "DeviceType":
            return "c10::" + name
        member = rest.split("::")[0]
        if first == "cuda" and (member in _MEMBERS or "CUDA" in member):
            return "at::" + name
        return None
