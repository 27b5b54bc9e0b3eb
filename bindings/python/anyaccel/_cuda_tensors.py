"""Tensor classes such as torch.cuda.FloatTensor, for accelerators in place of CUDA.

In a torch build without CUDA, these classes exist but raise an error when called.
"""
import torch

from . import _torch

NAMES = ("DoubleTensor", "FloatTensor", "HalfTensor", "BFloat16Tensor", "LongTensor", "IntTensor", "ShortTensor", "CharTensor",
         "ByteTensor", "BoolTensor")


class _DeviceTensorType(type):
    """Metaclass: isinstance(x, torch.cuda.FloatTensor) tests the device and the dtype."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Tensor) and instance.device.type == cls.device_type and instance.dtype is cls.dtype

    def __call__(cls, *arguments, device=None):
        target = cls.device_at(None if device is None else torch.device(device).index)
        if len(arguments) == 1 and isinstance(arguments[0], cls):
            return arguments[0].detach()
        if len(arguments) == 1 and not isinstance(arguments[0], (int, torch.Tensor, torch.Size)):
            return torch.tensor(arguments[0], dtype=cls.dtype, device=target)
        if any(isinstance(each, torch.Tensor) for each in arguments):
            raise TypeError(f"torch.cuda.{cls.__name__}() expects sizes, a sequence or a tensor of its own type; call .cuda() instead")
        sizes = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], torch.Size) else arguments
        return torch.empty(sizes or (0,), dtype=cls.dtype, device=target)


def make(device_type, device_at):
    """Make the classes for a device type. `device_at(index)` returns the device with this index, or the
    current one for None."""
    return {name: _DeviceTensorType(name, (), {"dtype": getattr(torch, name).dtype, "is_cuda": True, "__module__": "torch.cuda",
                                               "device_type": device_type, "device_at": staticmethod(device_at)})
            for name in NAMES}


def add(cuda):
    """Replace the tensor classes of the module torch.cuda."""

    def device_at(index):
        return torch.device(_torch.CUDA, torch.cuda.current_device() if index is None else index)

    for name, tensor_class in make(_torch.CUDA, device_at).items():
        setattr(cuda, name, tensor_class)
