"""Redirects the CUDA devices in the arguments of torch's functions."""

from __future__ import annotations

import typing

import torch
from torch.overrides import TorchFunctionMode

from .devices import CUDA, Devices, is_program
from .usage import Usage

_FunctionOf = typing.Callable[..., typing.Any]
_TENSOR_TYPE = "torch.cuda."


class Redirect(TorchFunctionMode):
    """Replaces CUDA devices with the accelerator's in calls of torch's functions.

    The mode is active in every thread for the whole run. torch.device is not replaced, so a program can
    compare, pickle and script devices.
    """

    def __init__(self, accelerator: typing.Any, devices: Devices, usage: Usage) -> None:
        super().__init__()
        self._accelerator = accelerator
        self._devices = devices
        self._usage = usage
        tensor = torch.Tensor
        # Functions that need more than a replaced keyword argument `device`.
        self._special: dict[object, _FunctionOf] = {
            tensor.to: self._to,
            tensor.cuda: self._cuda,
            tensor.type: self._type,
            tensor.device.__get__: self._device,
            tensor.is_cuda.__get__: self._is_cuda,
            tensor.pin_memory: self._pin_memory,
            tensor.is_pinned: self._is_pinned,
        }
        if devices.is_cpu:
            self._special[tensor.record_stream] = self._ignore
            self._special[torch.device] = self._new_device

    def __torch_function__(self, func: _FunctionOf, types: typing.Any, args: tuple = (), kwargs: "dict | None" = None) -> typing.Any:
        special = self._special.get(func)
        if special is not None:
            return special(func, args, kwargs or {})
        if not kwargs:
            return func(*args)
        device = kwargs.get("device")
        if device is not None:
            kwargs = self._with_device(kwargs, device)
        if self._devices.is_cpu and kwargs.get("pin_memory"):
            return self._pinned(func, args, kwargs)
        return func(*args, **kwargs)

    def _with_device(self, kwargs: dict, device: object) -> dict:
        found = self._devices.of(device)
        if found is None:
            return kwargs
        self._usage.count(f'device "{device}"')
        return {**kwargs, "device": found}

    def _mapped(self, device: object) -> object:
        found = self._devices.of(device)
        if found is None:
            return device
        self._usage.count(f'device "{device}"')
        return found

    def _new_device(self, func: _FunctionOf, args: tuple, kwargs: dict) -> torch.device:
        """torch.device(index), which means the current accelerator. torch does not count the CPU as one."""
        if len(args) == 1 and type(args[0]) is int and not kwargs:
            return torch.device(CUDA, args[0]) if is_program(2) else self._devices.at(args[0])
        return func(*args, **kwargs)

    def _to(self, func: _FunctionOf, args: tuple, kwargs: dict) -> typing.Any:
        if len(args) > 1:
            args = (args[0], self._mapped(args[1]), *args[2:])
        if "device" in kwargs:
            kwargs = self._with_device(kwargs, kwargs["device"])
        return func(*args, **kwargs)

    def _cuda(self, func: _FunctionOf, args: tuple, kwargs: dict) -> typing.Any:
        self._usage.count("Tensor.cuda")
        return self.cuda(*args, **kwargs)

    def cuda(self, tensor: torch.Tensor, device: typing.Any = None, non_blocking: bool = False,
             memory_format: torch.memory_format = torch.preserve_format) -> torch.Tensor:
        """Tensor.cuda() for the accelerator."""
        return tensor.to(self._devices.at(self._devices.index(device)), non_blocking=non_blocking, memory_format=memory_format)

    def _type(self, func: _FunctionOf, args: tuple, kwargs: dict) -> typing.Any:
        tensor, *rest = args
        wanted = rest[0] if rest else kwargs.get("dtype")
        if wanted is None:
            name = func(*args, **kwargs)
            if self._devices.is_cpu or tensor.device.type != self._devices.type or not is_program(2):
                return name
            return _TENSOR_TYPE + name.rpartition(".")[2]
        name = wanted if isinstance(wanted, str) else f"{getattr(wanted, '__module__', '')}.{getattr(wanted, '__name__', '')}"
        if not name.startswith(_TENSOR_TYPE):
            return func(*args, **kwargs)
        self._usage.count(name)
        dtype = getattr(torch, name[len(_TENSOR_TYPE):]).dtype
        return tensor.to(self._devices.at(None), dtype)

    def _device(self, func: _FunctionOf, args: tuple, kwargs: dict) -> typing.Any:
        device = func(*args)
        return self._devices.shown(device) if device.type == self._devices.type and is_program(2) else device

    def _is_cuda(self, func: _FunctionOf, args: tuple, kwargs: dict) -> bool:
        return args[0].device.type == self._devices.type if is_program(2) else func(*args)

    def _pin_memory(self, func: _FunctionOf, args: tuple, kwargs: dict) -> typing.Any:
        if not self._devices.is_cpu:
            return func(args[0])
        self._usage.count("Tensor.pin_memory")
        return self._accelerator.pin_memory(args[0])

    def _is_pinned(self, func: _FunctionOf, args: tuple, kwargs: dict) -> typing.Any:
        return self._accelerator.is_pinned(args[0]) if self._devices.is_cpu else func(args[0])

    def _pinned(self, func: _FunctionOf, args: tuple, kwargs: dict) -> typing.Any:
        made = func(*args, **{**kwargs, "pin_memory": False})
        gradient = made.requires_grad
        pinned = self._accelerator.pin_memory(made.detach())
        return pinned.requires_grad_() if gradient else pinned

    def _ignore(self, func: _FunctionOf, args: tuple, kwargs: dict) -> None:
        self._usage.count("Tensor.record_stream")
