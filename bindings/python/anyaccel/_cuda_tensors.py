"""Tensor classes such as torch.cuda.FloatTensor, for the simulator in place of CUDA.

In a torch build without CUDA, these classes exist but raise an error when called.
"""
import torch

from . import _torch

NAMES = ("DoubleTensor", "FloatTensor", "HalfTensor", "BFloat16Tensor", "LongTensor", "IntTensor", "ShortTensor", "CharTensor",
         "ByteTensor", "BoolTensor")


class _DeviceTensorType(type):
    """Metaclass: isinstance(x, torch.cuda.FloatTensor) tests the device and the dtype."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Tensor) and instance.device.type == _torch.CUDA and instance.dtype is cls.dtype

    def __call__(cls, *arguments, device=None):
        target = torch.device(_torch.CUDA, torch.cuda.current_device()) if device is None else torch.device(device)
        if len(arguments) == 1 and isinstance(arguments[0], cls):
            return arguments[0].detach()
        if len(arguments) == 1 and not isinstance(arguments[0], (int, torch.Tensor, torch.Size)):
            return torch.tensor(arguments[0], dtype=cls.dtype, device=target)
        if any(isinstance(each, torch.Tensor) for each in arguments):
            raise TypeError(f"torch.cuda.{cls.__name__}() expects sizes, a sequence or a tensor of its own type; call .cuda() instead")
        sizes = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], torch.Size) else arguments
        return torch.empty(sizes or (0,), dtype=cls.dtype, device=target)


def add(cuda):
    """Replace the tensor classes of the module torch.cuda."""
    for name in NAMES:
        dtype = getattr(torch, name).dtype
        setattr(cuda, name, _DeviceTensorType(name, (), {"dtype": dtype, "is_cuda": True, "__module__": "torch.cuda"}))
