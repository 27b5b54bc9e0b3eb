"""The module `torch.<device type>` for a device type that torch has none for, such as that of the simulator: what
torch's own Python code (random numbers, autocast, checkpointing, DataLoader, torch.accelerator) asks there."""

import os
import sys
import types

import torch

from .stream import Event, Stream


def register(accelerator):
    """Gives torch a module for the accelerator's device type, once, where it has none.

    Where the simulator stands in for a type that torch has a module for, that module asks the vendor's parts of a torch
    that was built for it, which are not there: its functions are replaced by ours.
    """
    name = accelerator.device_type()
    if name == "cpu":
        return
    present = getattr(torch, name, None)
    if present is not None:
        if os.environ.get("SIM_STANDS_IN_FOR") and not hasattr(present, "_anyaccel"):
            for key, value in vars(_make(name, accelerator)).items():
                if not key.startswith("__"):
                    setattr(present, key, value)
        return
    module = _make(name, accelerator)
    torch._register_device_module(name, module)
    sys.modules[f"torch.{name}"] = module
    if torch._C._get_privateuse1_backend_name() == name:
        _add_tensor_methods()


def _make(name, accelerator):
    module = types.ModuleType(f"torch.{name}", f"Made by anyaccel: torch's functions for {name} devices.")

    def index_of(device):
        if device is None or isinstance(device, int):
            return device
        return torch.device(device).index

    def per_device(method):

        def call(device=None):
            return method(index_of(device))

        return call

    class DeviceContext:
        """Makes a device current for a `with` block."""

        def __init__(self, device):
            self._index = index_of(device)

        def __enter__(self):
            self._previous = accelerator.current_device()
            if self._index is not None and self._index >= 0:
                accelerator.set_device(self._index)

        def __exit__(self, *exception):
            accelerator.set_device(self._previous)

    def exchange_device(device):
        previous = accelerator.current_device()
        if device >= 0:
            accelerator.set_device(device)
        return previous

    def rng_state(device=None):
        return accelerator.get_rng_state(index_of(device))

    def set_rng_state(state, device=None):
        accelerator.set_rng_state(state, index_of(device))

    module._anyaccel = True
    module.device = DeviceContext
    module.Stream, module.Event = Stream, Event
    module._lazy_init = module.init = lambda: accelerator.synchronize()
    module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.is_available = accelerator.is_available
    module.device_count = accelerator.device_count
    module.current_device = accelerator.current_device
    module.set_device = lambda device: accelerator.set_device(index_of(device))
    module._exchange_device = module._maybe_exchange_device = exchange_device
    module.current_stream = per_device(accelerator.current_stream)
    module.default_stream = per_device(accelerator.default_stream)
    module.set_stream = accelerator.set_stream
    module.stream = accelerator.stream
    module.get_device_name = lambda device=None: accelerator.device_properties(index_of(device)).name
    module.get_device_properties = per_device(accelerator.device_properties)
    module.get_rng_state, module.set_rng_state = rng_state, set_rng_state
    module.manual_seed, module.manual_seed_all = accelerator.manual_seed, accelerator.manual_seed_all
    module.initial_seed = accelerator.initial_seed
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    module.is_bf16_supported = accelerator.is_bf16_supported
    module.empty_cache = accelerator.empty_cache
    module.mem_get_info = lambda device=None: tuple(accelerator.memory_info(index_of(device)))
    for method in ("synchronize", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
                   "memory_stats", "reset_peak_memory_stats"):
        setattr(module, method, per_device(getattr(accelerator, method)))
    return module


def _add_tensor_methods():
    """tensor.<name>(), tensor.is_<name>, module.<name>() and storage's, as torch makes them for a renamed PrivateUse1."""
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True,
                                                         for_storage=False)
