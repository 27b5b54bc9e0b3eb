"""The class Accelerator. Most of its methods are in the C++ library.

This module caches constant results, because a call into C++ takes five times as long as a call to a
Python method. It also defines methods whose interface differs in Python.
"""

import functools
import os

import torch

from .. import _native, comm, device_module
from ..errors import make_error
from ..op_builder import builder_class, classes_of
from ..stream import Event, Stream
from .amp import Amp

_Native = _native.Accelerator


def _tensor_maker(dtype):

    @property
    def maker(self):
        return functools.partial(torch.tensor, dtype=dtype, device=self._device_name)

    maker.__doc__ = f"Creates a {dtype} tensor from values, on the current device."
    return maker


class _Kind(type(_Native)):
    """Metaclass that lets isinstance() treat users' accelerators (abstract_accelerator.py) as
    instances of Accelerator.
    """

    def __instancecheck__(cls, value):
        if super().__instancecheck__(value):
            return True
        return cls is Accelerator and getattr(type(value), "_stands_for_accelerator", False)


class Accelerator(_Native, metaclass=_Kind):
    """The accelerator of a process, returned by `get_accelerator()`. docs/reference/methods.md describes
    all methods.

    The default device index is the current device; an index out of range raises `invalid_argument`.
    Unsupported operations raise `anyaccel.Error` with code `unsupported` and never fail silently.
    """

    # Constants are stored in slots, because reading them from the `__dict__` of an object created
    # by C++ takes twice as long.
    __slots__ = ("__dict__", "_name", "_device_type", "_device_name", "_device_names", "_communication_backend_name", "_compile_backend",
                 "_is_synchronized", "_use_host_timers", "_resolves_data_dependency", "_handles_memory_backpressure",
                 "_supports_nvtx_domain", "_is_fp64_supported", "_pin_memory_alignment", "_op_builder_dir", "_export_envs",
                 "_visible_devices_envs", "_current_device_name", "_is_available", "_is_bf16_supported", "_is_fp16_supported",
                 "_is_triton_supported", "_supported_dtypes")

    def __init__(self, backend=None):
        """Create the accelerator for this process, or for `backend` (an object or a registered
        name), which need not be this process's backend.
        """
        super().__init__(*([] if backend is None else [backend]))
        # A backend sets environment variables for its vendor's libraries when it starts. Child
        # processes that get a copy of os.environ need them, too.
        for variable, value in _native.environment():
            os.environ.setdefault(variable, value)
        self._name = super().name()
        self._device_type = super().device_type()
        self._device_name = super().device_name()
        self._device_names = {}
        self._communication_backend_name = None  # determined on first use, because it may take a second
        self._compile_backend = super().get_compile_backend()
        self._is_synchronized = super().is_synchronized_device()
        self._use_host_timers = super().use_host_timers()
        self._resolves_data_dependency = super().resolves_data_dependency()
        self._handles_memory_backpressure = super().handles_memory_backpressure()
        self._supports_nvtx_domain = super().supports_nvtx_domain()
        self._is_fp64_supported = super().is_fp64_supported()
        self._pin_memory_alignment = super().pin_memory_alignment()
        self._op_builder_dir = super().op_builder_dir()
        self._export_envs = super().export_envs()
        self._visible_devices_envs = super().visible_devices_envs()
        # On the cpu backend, whose devices are parts of one machine, these are also constant. On
        # other backends, they depend on the current device or on a user's class.
        host = self._name == "cpu" and (backend is None or isinstance(backend, str))
        self._current_device_name = super().current_device_name() if host else None
        self._is_available = super().is_available() if host else None
        self._is_bf16_supported = super().is_bf16_supported() if host else None
        self._is_fp16_supported = super().is_fp16_supported() if host else None
        self._is_triton_supported = super().is_triton_supported() if host else None
        self._supported_dtypes = super().supported_dtypes() if host else None
        self._op_builders = {}
        self._python_builders = None  # determined on first use
        device_module.register(self)
        # The host's communication backend is "ccl" or "staged". "staged" is always registered.
        # Passing only "ccl" avoids determining which of the two is used.
        comm.register(self, [comm.CCL] if self._device_type == "cpu" else None)

    def __repr__(self):
        return f"<anyaccel.Accelerator {self._name!r}>"

    def _repr_html_(self):
        from .. import _notebook
        return _notebook.accelerator_html(self)

    # Constants

    def name(self):
        return self._name

    def device_type(self):
        return self._device_type

    def is_synchronized_device(self):
        return self._is_synchronized

    def use_host_timers(self):
        return self._use_host_timers

    def resolves_data_dependency(self):
        return self._resolves_data_dependency

    def handles_memory_backpressure(self):
        return self._handles_memory_backpressure

    def supports_nvtx_domain(self):
        return self._supports_nvtx_domain

    def is_fp64_supported(self):
        return self._is_fp64_supported

    def pin_memory(self, tensor, make_copy=True, match_shape=True, align_bytes=None):
        """Copy a host tensor to page-locked memory, as in C++.

        `align_bytes`, by name or as the second argument as in older DeepSpeed releases, is ignored,
        because pinned memory is page-aligned.
        """
        if not isinstance(make_copy, bool):
            make_copy, align_bytes = True, make_copy
        return super().pin_memory(tensor, make_copy, match_shape)

    def pin_memory_alignment(self):
        return self._pin_memory_alignment

    def communication_backend_name(self):
        if self._communication_backend_name is None:
            self._communication_backend_name = super().communication_backend_name()
        return self._communication_backend_name

    def op_builder_dir(self):
        return self._op_builder_dir

    def export_envs(self):
        return list(self._export_envs)

    def visible_devices_envs(self):
        return list(self._visible_devices_envs)

    def set_device(self, device_index):
        super().set_device(device_index)
        device_module.chosen_types.add(self._device_type)

    def device_name(self, device_index=None):
        if device_index is None:
            return self._device_name
        try:
            return self._device_names[device_index]
        except KeyError:
            # A valid index stays valid, so its name can be cached.
            name = self._device_names[device_index] = super().device_name(device_index)
            return name

    def current_device_name(self):
        name = self._current_device_name
        return super().current_device_name() if name is None else name

    def is_available(self):
        available = self._is_available
        return super().is_available() if available is None else available

    def is_bf16_supported(self):
        supported = self._is_bf16_supported
        return super().is_bf16_supported() if supported is None else supported

    def is_fp16_supported(self):
        supported = self._is_fp16_supported
        return super().is_fp16_supported() if supported is None else supported

    def is_triton_supported(self):
        supported = self._is_triton_supported
        return super().is_triton_supported() if supported is None else supported

    def supported_dtypes(self):
        dtypes = self._supported_dtypes
        return super().supported_dtypes() if dtypes is None else list(dtypes)

    def get_compile_backend(self):
        return self._compile_backend

    def set_compile_backend(self, backend):
        super().set_compile_backend(backend)
        self._compile_backend = backend

    # Methods whose interface differs from C++

    @property
    def Stream(self):
        """Stream class: `get_accelerator().Stream(priority=-1)`."""
        return Stream

    @property
    def Event(self):
        """Event class: `get_accelerator().Event(enable_timing=True)`."""
        return Event

    BFloat16Tensor = _tensor_maker(torch.bfloat16)
    ByteTensor = _tensor_maker(torch.uint8)
    DoubleTensor = _tensor_maker(torch.float64)
    FloatTensor = _tensor_maker(torch.float32)
    HalfTensor = _tensor_maker(torch.float16)
    IntTensor = _tensor_maker(torch.int32)
    LongTensor = _tensor_maker(torch.int64)

    def amp(self):
        """Autocast and loss scaling for this accelerator, with the interface of older DeepSpeed
        releases.
        """
        return Amp(self)

    def pin_empty(self, *size, dtype, device="cpu"):
        """Create an uninitialized pinned host tensor: `pin_empty(2, 3, dtype=torch.float32)`.

        The sizes can be one tuple.
        """
        _require_host(device, "pin_empty")
        shape = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
        return super().pin_empty(dtype, list(shape))

    def pin_empty_like(self, tensor, device="cpu", dtype=None):
        """Create a pinned host tensor with the shape of a tensor, and with its dtype if `dtype` is
        None."""
        _require_host(device, "pin_empty_like")
        return super().pin_empty(tensor.dtype if dtype is None else dtype, list(tensor.shape))

    def set_visible_devices_envs(self, current_env, local_accelerator_ids):
        """Select a local rank's devices by setting variables in `current_env`, which is modified in
        place.
        """
        current_env.update(super().set_visible_devices_envs([str(i) for i in local_accelerator_ids]))

    def get_op_builder(self, class_name):
        """Return the builder's class.

        Never None: if this backend lacks the op, the builder's load() raises `unsupported`.
        """
        made = self._op_builders.get(class_name)
        if made is None:
            if self._python_builders is None:
                self._python_builders = classes_of(self._op_builder_dir)
            # Builders in the backend's own package override those that every backend has.
            made = self._python_builders.get(class_name) or builder_class(self, class_name)
            self._op_builders[class_name] = made
        return made

    def create_op_builder(self, class_name):
        """Create a builder. Never None, like get_op_builder()."""
        return self.get_op_builder(class_name)()

    def build_extension(self):
        """Return a class for setup.py that derives from torch's BuildExtension.

        It adds the settings that a C++ extension needs to use AnyAccel: include_dirs, library_dirs, libraries,
        cxx_flags and torch_version.
        """
        try:
            from torch.utils.cpp_extension import BuildExtension
        except ImportError as error:
            raise make_error("unavailable", "build_extension", f"cannot import torch.utils.cpp_extension: {error}",
                             hint="install setuptools") from error
        needs = super().build_extension()
        names = ("include_dirs", "library_dirs", "libraries", "cxx_flags", "torch_version")
        return type("BuildExtension", (BuildExtension,), {name: getattr(needs, name) for name in names})


def _require_host(device, where):
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = None
    if kind != "cpu":
        raise make_error("invalid_argument", where, "pinned memory is always host memory", got=f"device {device!r}", want="cpu")


_native.set_accelerator_class(Accelerator)
