"""Redirects CUDA devices in those parts of torch that a TorchFunctionMode does not intercept."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import typing

import torch
import torch.utils._device

from .. import _cuda_names
from .devices import CUDA, Devices
from .patches import Patches
from .usage import Usage

_LOAD_PRIORITY = 5  # before torch's own functions, which begin at 10


class _Constructor:
    """Makes `torch.Tensor(...)` create tensors on the accelerator while the default tensor type is a
    CUDA type. Modes do not intercept this constructor."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._installed = False
        self.device: torch.device | None = None

    def use(self, device: torch.device) -> None:
        """Create tensors on `device`."""
        self.device = device
        if self._installed or device.type == "cpu":
            return
        self._installed = True
        with contextlib.suppress(ImportError):
            # Dynamo compares the constructor's signature with its own when it is imported.
            importlib.import_module("torch._dynamo.polyfills.tensor")
        make = torch._C.TensorBase.__new__

        def new(cls: type, *arguments: typing.Any, **options: typing.Any) -> torch.Tensor:
            made = make(cls, *arguments, **options)
            return made if self.device is None or cls is not torch.Tensor else made.to(self.device)

        self._patches.set(torch.Tensor, "__new__", staticmethod(new))


class TorchParts:
    """Patches the parts of torch outside torch.cuda."""

    def __init__(self, accelerator: typing.Any, devices: Devices, usage: Usage, patches: Patches) -> None:
        self._accelerator = accelerator
        self._devices = devices
        self._usage = usage
        self._patches = patches

    def install(self) -> None:
        """Install all patches."""
        self._amp()
        self._generator()
        self._default_device()
        self._storages()
        self._modules()
        self._data_parallel()
        self._profiler()

    def wrap(self, owner: typing.Any, name: str, argument: str, change: "typing.Callable[[typing.Any], typing.Any]") -> None:
        """Replace a function by one that changes one of its arguments, given by position or name."""
        function = getattr(owner, name)
        names = list(inspect.signature(function).parameters)
        position = names.index(argument)

        @functools.wraps(function)
        def call(*arguments: typing.Any, **options: typing.Any) -> typing.Any:
            if argument in options:
                options[argument] = change(options[argument])
            elif position < len(arguments):
                arguments = (*arguments[:position], change(arguments[position]), *arguments[position + 1:])
            return function(*arguments, **options)

        self._patches.set(owner, name, call)

    def type_of(self, device_type: object) -> object:
        """The accelerator's device type for "cuda"."""
        if device_type != CUDA:
            return device_type
        self._usage.count('device type "cuda"')
        return self._devices.type

    def device(self, device: typing.Any) -> typing.Any:
        """The accelerator's device for a CUDA device."""
        found = self._devices.of(device)
        if found is None:
            return device
        self._usage.count(f'device "{device}"')
        return found

    def _amp(self) -> None:
        autocast = torch.amp.autocast_mode.autocast
        self.wrap(autocast, "__init__", "device_type", self.type_of)
        for place in (torch.amp, torch.amp.autocast_mode):
            for name in ("custom_fwd", "custom_bwd"):
                self.wrap(place, name, "device_type", self.type_of)
        make = torch.amp.GradScaler.__init__

        @functools.wraps(make)
        def new_scaler(scaler: torch.amp.GradScaler, device: str = CUDA, *arguments: typing.Any, **options: typing.Any) -> None:
            make(scaler, self.type_of(device), *arguments, **options)

        self._patches.set(torch.amp.GradScaler, "__init__", new_scaler)
        kind = self._devices.type
        for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype", "set_autocast_enabled"):
            self._patches.set(torch, name, self._autocast_function(getattr(torch, name)))
        self._patches.set(torch, "get_autocast_gpu_dtype", lambda get=torch.get_autocast_dtype: get(kind))
        self._patches.set(torch, "set_autocast_gpu_dtype", lambda dtype, put=torch.set_autocast_dtype: put(kind, dtype))

    def _autocast_function(self, function: typing.Callable) -> typing.Callable:
        """Without a device type, these functions mean CUDA."""
        kind = self._devices.type

        def call(*arguments: typing.Any, **options: typing.Any) -> typing.Any:
            given = options.pop("device_type", None)
            if given is None and arguments and isinstance(arguments[0], str):
                given, *rest = arguments
                arguments = tuple(rest)
            return function(kind if given in (None, CUDA) else given, *arguments, **options)

        call.__name__ = call.__qualname__ = function.__name__
        return call

    def _generator(self) -> None:
        original = torch.Generator
        device_of = self.device

        class GeneratorType(type(original)):  # type: ignore[misc]

            def __instancecheck__(cls, instance: object) -> bool:
                return isinstance(instance, original)

            def __subclasscheck__(cls, subclass: type) -> bool:
                return issubclass(subclass, original)

            def __call__(cls, device: typing.Any = "cpu") -> torch.Generator:
                return original(device=device_of(device))

        made = GeneratorType("Generator", (original,), {"__module__": "torch", "__doc__": original.__doc__})
        self._patches.set(torch, "Generator", made)

    def _default_device(self) -> None:
        self.wrap(torch.utils._device.DeviceContext, "__init__", "device", self.device)
        set_type = torch.set_default_tensor_type
        constructor = _Constructor(self._patches)

        @functools.wraps(set_type)
        def set_default_tensor_type(t: typing.Any, /) -> None:
            name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
            if not name.startswith("torch.cuda."):
                if constructor.device is not None:
                    constructor.device = None
                    torch.set_default_device(None)
                return set_type(t)
            constructor.use(self._devices.at(None))
            self._usage.count("torch.set_default_tensor_type")
            torch.set_default_dtype(getattr(torch, name.rpartition(".")[2]).dtype)
            return torch.set_default_device(self._devices.at(None))

        self._patches.set(torch, "set_default_tensor_type", set_default_tensor_type)

    def _storages(self) -> None:
        self.wrap(torch.storage, "_to", "device", self.device)
        registry = torch.serialization._package_registry

        def restore(storage: typing.Any, location: str) -> typing.Any:
            if location != CUDA and not location.startswith(CUDA + ":"):
                return None
            self._usage.count("torch.load of CUDA tensors")
            target = self._devices.of(location)
            return storage if target is None or storage.device == target else storage.to(device=target)

        entry = (_LOAD_PRIORITY, lambda storage: None, restore)
        torch.serialization.register_package(*entry)
        self._patches.on_restore(lambda: registry.remove(entry))

    def _modules(self) -> None:
        parse = torch._C._nn._parse_to

        def parse_to(*arguments: typing.Any, **options: typing.Any) -> typing.Any:
            if "device" in options:
                options["device"] = self.device(options["device"])
            elif arguments:
                arguments = (self.device(arguments[0]), *arguments[1:])
            return parse(*arguments, **options)

        self._patches.set(torch._C._nn, "_parse_to", parse_to)

    def _data_parallel(self) -> None:
        kind = None if self._devices.is_cpu else self._devices.type
        for place in (torch._utils, sys.modules["torch.nn.parallel.data_parallel"]):
            self._patches.set(place, "_get_available_device_type", lambda: kind)
        if kind:
            for name, function in _cuda_names.collectives(kind).items():
                self._patches.set(torch._C, name, function)
        ddp = torch.nn.parallel.DistributedDataParallel
        for argument in ("device_ids", "output_device"):
            self.wrap(ddp, "__init__", argument, self._parallel_devices)

    def _parallel_devices(self, ids: typing.Any) -> typing.Any:
        if self._devices.is_cpu:
            return None
        return [self.device(each) for each in ids] if isinstance(ids, (list, tuple)) else self.device(ids)

    def _profiler(self) -> None:
        """Profile the host only, if torch's profiler does not know the accelerator."""
        kind = self._devices.type
        known = None if self._devices.is_cpu or kind == torch._C._get_privateuse1_backend_name() else kind
        profile = torch.autograd.profiler.profile
        self.wrap(profile, "__init__", "use_device", lambda device: known if device == CUDA else device)
        self.wrap(profile, "__init__", "use_cuda", lambda use: False)

    def count(self, name: str) -> None:
        """Count one redirected use."""
        self._usage.count(name)
