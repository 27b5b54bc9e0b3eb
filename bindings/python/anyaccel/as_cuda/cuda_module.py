"""Redirects the functions and classes of torch.cuda.

The rules of `anyaccel port` (anyaccel_port.rules) say which members have an equivalent. device_module.py
creates the functions, as it does for torch.sim and the modules of our other devices.
"""

from __future__ import annotations

import contextlib
import functools
import types
import typing

import torch
from anyaccel_port import rules

from .. import _cuda_names, _cuda_tensors, device_module
from ..errors import make_error
from .devices import CUDA, Devices, is_program
from .graphs import graph_class
from .patches import Patches
from .properties import Properties, capability_of
from .streams import stream_class
from .usage import Usage

# Submodules that also contain functions of torch.cuda.
_SUBMODULES = ("memory", "random", "streams", "graphs")


class CudaModule:
    """Makes the replacements for the members of torch.cuda."""

    def __init__(self, accelerator: typing.Any, devices: Devices, usage: Usage, patches: Patches, pretended: typing.Any) -> None:
        self._accelerator = accelerator
        self._devices = devices
        self._usage = usage
        self._patches = patches
        self._pretended = pretended
        self.replacements = self._make()

    def install(self) -> None:
        """Replace the members of torch.cuda and of its submodules."""
        cuda = torch.cuda
        places = [cuda, *(getattr(cuda, name) for name in _SUBMODULES)]
        for name, value in self.replacements.items():
            for place in places:
                if place is cuda or name in vars(place):
                    self._patches.set(place, name, value)
        self._patches.set(cuda.nvtx, "_nvtx", _cuda_names.Ranges(self._accelerator))
        self._patches.set(cuda.graphs, "_graph_pool_handle", _cuda_names.make_pool_handle)
        self._patches.set(cuda.graphs, "_cuda_isCurrentStreamCapturing", self._accelerator.is_current_stream_capturing)
        for name, value in _cuda_names.functions(self._accelerator).items():
            if not hasattr(torch._C, name):
                self._patches.set(torch._C, name, value)
        for name in ("version", "unique_id", "init_rank"):
            why = rules.BY_ID["cuda-nccl"].why
            self._patches.set(cuda.nccl, name, self._missing("nccl." + name, why, getattr(cuda.nccl, name)))
        for name in ("start", "stop"):
            self._patches.set(cuda.profiler, name, self._counted("profiler." + name, lambda *a, **k: None, getattr(cuda.profiler, name)))
        # Programs parse the version. None would contradict is_available().
        self._patches.set(torch.version, CUDA, torch.version.cuda or _cuda_names.CUDA_VERSION)

    def _make(self) -> dict[str, typing.Any]:
        made = device_module.make(CUDA, self._accelerator, self._devices.index)
        own = self._own(made)
        found: dict[str, typing.Any] = {}
        for name in sorted({*torch.cuda.__all__, *own}):
            present = getattr(torch.cuda, name, None)
            rule = rules.find(f"torch.cuda.{name}")
            if name in own:
                found[name] = own[name]
            elif isinstance(present, types.ModuleType) or (rule is not None and rule.runtime == "same"):
                continue
            elif rule is not None and rule.runtime and hasattr(made, name):
                found[name] = self._counted(name, getattr(made, name), present)
            elif isinstance(present, type):
                continue  # programs only refer to this class, for example in annotations
            elif callable(present):
                found[name] = self._missing(name, rule.why if rule is not None else "", present)
        return found

    def _own(self, made: types.ModuleType) -> dict[str, typing.Any]:
        """The members that are not functions of the accelerator, or that differ from its functions."""
        accelerator, devices = self._accelerator, self._devices
        wrapped = functools.partial(self._wrap)

        def get_device_name(device: object = None) -> str:
            return get_device_properties(device).name

        def get_device_properties(device: object = None) -> Properties:
            return Properties(accelerator, devices.index(device), self._pretended)

        def get_device_capability(device: object = None) -> tuple[int, int]:
            found = capability_of(accelerator, devices.index(device), self._pretended)
            if found == (0, 0):
                self._usage.lacks("torch.cuda.get_device_capability", "the device has no compute capability; (0, 0) was returned")
            return found

        def set_rng_state(new_state: torch.Tensor, device: object = CUDA) -> None:
            accelerator.set_rng_state(new_state, devices.index(device))

        def get_rng_state(device: object = CUDA) -> torch.Tensor:
            return accelerator.get_rng_state(devices.index(device))

        def seed_all() -> None:
            made.seed_all()

        functions = {
            "get_device_name": get_device_name,
            "get_device_properties": get_device_properties,
            "get_device_capability": get_device_capability,
            "get_rng_state": get_rng_state,
            "set_rng_state": set_rng_state,
            "seed_all": seed_all,
            "get_arch_list": list,
            "get_gencode_flags": str,
            "ipc_collect": lambda: None,
            "is_tf32_supported": lambda: False,
            "set_sync_debug_mode": lambda debug_mode: None,
            "get_sync_debug_mode": lambda: 0,
            "can_device_access_peer": lambda device, peer_device: devices.index(device) != devices.index(peer_device),
            "reset_accumulated_memory_stats": lambda device=None: accelerator.reset_peak_memory_stats(devices.index(device)),
            "reset_peak_host_memory_stats": lambda: None,
            "reset_accumulated_host_memory_stats": lambda: None,
            "set_per_process_memory_fraction": lambda fraction, device=None: None,
            "get_per_process_memory_fraction": lambda device=None: 1.0,
            "max_memory_cached": lambda device=None: accelerator.max_memory_reserved(devices.index(device)),
            "memory_cached": lambda device=None: accelerator.memory_reserved(devices.index(device)),
            "reset_max_memory_allocated": lambda device=None: accelerator.reset_peak_memory_stats(devices.index(device)),
            "reset_max_memory_cached": lambda device=None: accelerator.reset_peak_memory_stats(devices.index(device)),
            "graph_pool_handle": _cuda_names.make_pool_handle,
            "list_gpu_processes": lambda device=None: f"GPU:{devices.index(device) or 0}\nno processes are running",
            "memory_snapshot": lambda *arguments, **options: [],
            "_record_memory_history": lambda *arguments, **options: None,
            "_sleep": lambda cycles: None,
        }  # yapf: disable
        found = {name: wrapped(name, function) for name, function in functions.items()}
        found |= {
            "init": made.init, "is_initialized": made.is_initialized, "_lazy_init": made._lazy_init, "_lazy_call": accelerator.lazy_call,
            "_is_in_bad_fork": made._is_in_bad_fork, "_initialized": True, "_exchange_device": made._exchange_device,
            "_maybe_exchange_device": made._maybe_exchange_device, "_get_generator": made._get_generator,
            "device": made.device, "device_of": made.device_of, "StreamContext": made.StreamContext,
            "default_generators": made.default_generators,
            "Stream": stream_class(accelerator, devices), "Event": made.Event, "CUDAGraph": graph_class(accelerator),
        }  # yapf: disable
        if devices.is_cpu:
            # The CPU needs no initialization, and a forked child can use it.
            found |= {"_lazy_init": lambda: None, "init": lambda: None, "_is_in_bad_fork": lambda: False, "is_initialized": lambda: True}
        found |= _cuda_tensors.make(devices.type, devices.at)
        return found

    def _wrap(self, name: str, function: typing.Callable) -> typing.Callable:
        return self._counted(name, function, getattr(torch.cuda, name, None))

    def _counted(self, name: str, function: typing.Any, present: typing.Any) -> typing.Any:
        """Wrap a function so that its calls are counted. inspect sees the name and the signature of
        torch's function."""
        if isinstance(function, type) or not callable(function):
            return function
        count, full = self._usage.count, f"torch.cuda.{name}"

        def call(*arguments: typing.Any, **options: typing.Any) -> typing.Any:
            if is_program(1):  # torch's own functions also call torch.cuda
                count(full)
            return function(*arguments, **options)

        if isinstance(present, types.FunctionType):
            functools.update_wrapper(call, present)
        else:
            call.__name__ = call.__qualname__ = name
        return call

    def _missing(self, name: str, why: str, present: typing.Any) -> typing.Callable:
        usage, full = self._usage, f"torch.cuda.{name}"
        why = why or "no rule covers this function"

        def fail(*arguments: typing.Any, **options: typing.Any) -> typing.NoReturn:
            usage.lacks(full, why)
            raise make_error("unsupported", full, f"no equivalent on the accelerator {self._accelerator.name()!r}", hint=why)

        with contextlib.suppress(AttributeError, TypeError):
            functools.update_wrapper(fail, present)
        return fail
