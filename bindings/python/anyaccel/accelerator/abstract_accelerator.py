"""Counterpart of DeepSpeed's accelerator base class, from which users derive their own
accelerators:

    class MyCustomAccelerator(DeepSpeedAccelerator):
        def __init__(self):
            super().__init__()
            self._name = 'custom'
            self._communication_backend_name = 'nccl'
            self._compile_backend = 'inductor'

    set_accelerator(MyCustomAccelerator())

No method is abstract. Methods that a class does not define come from AnyAccel's backend for the
device, so existing classes keep working when a later version adds methods. C++ code in this process
also calls the class's methods.
"""

from .. import _native
from .. import backend as _backend
from ..errors import make_error
from .accelerator import Accelerator

# Backend functions that C++ calls and that have the same names in DeepSpeedAccelerator.
_SAME = ("device_count", "current_device", "set_device", "synchronize", "default_generator", "current_stream", "default_stream", "empty_cache",
         "reset_peak_memory_stats", "is_current_stream_capturing")
_TRAITS = {"is_synchronized_device": "synchronized", "use_host_timers": "use_host_timers",
           "resolves_data_dependency": "resolves_data_dependency", "handles_memory_backpressure": "handles_memory_backpressure",
           "supports_nvtx_domain": "supports_nvtx_domain", "is_fp64_supported": "fp64", "is_triton_supported": "triton",
           "visible_devices_envs": "visible_devices_envs", "export_envs": "export_envs", "op_builder_dir": "op_builder_dir"}


class DeepSpeedAccelerator:
    """Base class for accelerators written in Python, with DeepSpeed's methods.

    A derived class sets `_name` after `super().__init__()`. It also sets
    `_communication_backend_name` and `_compile_backend` if they differ from the device's defaults.
    It overrides methods as needed.

    Its devices have the type that `device_name()` returns, or `_name` if that is not overridden.
    Using the accelerator raises `unavailable` if torch does not know this device type.
    """

    _stands_for_accelerator = True

    def __init__(self):
        self._name = None
        self._communication_backend_name = None
        self._compile_backend = None

    def __repr__(self):
        return f"<{type(self).__name__} {self._name!r}>"

    def name(self):
        """Return `_name`."""
        return self._name

    def device_name(self, device_index=None):
        """Return `_name`, with `device_index` appended if device names include an index."""
        if device_index is None:
            return self._name
        return self._all().device_name(device_index)

    def communication_backend_name(self):
        """Return the backend name for torch.distributed: `_communication_backend_name` if it is
        set, otherwise AnyAccel's default for the device.
        """
        return self._communication_backend_name or self._all().communication_backend_name()

    def get_compile_backend(self):
        """Return the backend for torch.compile: `_compile_backend` if it is set, otherwise
        AnyAccel's default for the device.
        """
        return self._compile_backend or self._all().get_compile_backend()

    def set_compile_backend(self, backend):
        """Set the backend for torch.compile.

        Raise `invalid_argument`, with a list of the known backends, if torch does not know
        `backend`.
        """
        if backend != self._compile_backend:
            import torch
            known = torch._dynamo.list_backends(exclude_tags=())
            if backend not in known:
                raise make_error("invalid_argument", "set_compile_backend", f"the accelerator {self._name!r} does not support this compile backend",
                                 got=repr(backend), want="one of " + ", ".join(known))
        self._compile_backend = backend

    def _all(self):
        """Return the AnyAccel accelerator that provides the methods that the class does not define.
        It calls the class's overrides.
        """
        made = self.__dict__.get("_anyaccel_all")
        if made is None:
            # Call _below() first: creating the first accelerator for a device type adds a device
            # module if torch lacks one. That module must not call the class, because the class's
            # methods may call the module.
            self._below()
            made = Accelerator(_backend.over(_device_below(self), _traits_of(self), _slots_of(type(self)), accelerator=self))
            self.__dict__["_anyaccel_all"] = made
        return made

    def _below(self):
        """Return an AnyAccel accelerator that ignores this class's overrides, for `super()` in an
        overriding method.
        """
        made = self.__dict__.get("_anyaccel_below")
        if made is None:
            made = self.__dict__["_anyaccel_below"] = Accelerator(_device_below(self))
        return made

    # Called only for names that no base class defines: methods added in later versions, and
    # accelerator fields.
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._all(), name)


def _forwarding(name):
    """Return a method or property that forwards to Accelerator's, for classes that do not define it
    or that call it through super().
    """
    model = getattr(Accelerator, name)

    def target(self):
        return self._below() if getattr(type(self), name) is not getattr(DeepSpeedAccelerator, name) else self._all()

    if isinstance(model, property):
        return property(lambda self: getattr(target(self), name), doc=model.__doc__)

    def method(self, *arguments, **keywords):
        return getattr(target(self), name)(*arguments, **keywords)

    method.__name__, method.__doc__ = name, model.__doc__
    method.__qualname__ = f"DeepSpeedAccelerator.{name}"
    return method


for _each in dir(Accelerator):
    if not _each.startswith("_") and _each not in vars(DeepSpeedAccelerator):
        setattr(DeepSpeedAccelerator, _each, _forwarding(_each))


def _overrides(cls, *names):
    return any(getattr(cls, name) is not getattr(DeepSpeedAccelerator, name) for name in names)


def _device_type_of(accelerator):
    if not accelerator._name:
        raise make_error("invalid_state", type(accelerator).__name__, "the accelerator has no name", hint="set `_name` after super().__init__()")
    name = accelerator.device_name() if _overrides(type(accelerator), "device_name") else accelerator._name
    return str(name).split(":")[0]


def _device_below(accelerator):
    made = accelerator.__dict__.get("_anyaccel_device")
    if made is None:
        device = _device_type_of(accelerator)
        base = device if device in _native.registered_backends() else None
        traits = {"name": device, "class_name": type(accelerator).__name__, "device_type": device}
        if base is None:
            _require_known(device, type(accelerator).__name__)
        made = accelerator.__dict__["_anyaccel_device"] = _backend.below(traits, base)
    return made


def _require_known(device, where):
    """Raise `unavailable` if torch does not know the device type."""
    import torch
    try:
        torch.device(device)
    except RuntimeError:
        raise make_error("unavailable", where, "this process's LibTorch does not support the device type", got=repr(device[:100]),
                         hint="do one of these: import the vendor's torch package, which adds the type; if your library uses torch's PrivateUse1, call "
                         f"torch.utils.rename_privateuse1_backend({device[:100]!r}) before set_accelerator(); return torch's name for the device type, such as "
                         f"'cpu', from device_name() (the accelerator's `_name` can stay as it is); or test without a device by setting "
                         f"SIM_STANDS_IN_FOR={device[:100]}") from None


def _traits_of(accelerator):
    cls = type(accelerator)
    traits = {"name": accelerator._name, "class_name": cls.__name__}
    if accelerator._communication_backend_name:
        traits["communication_backend"] = accelerator._communication_backend_name
    if accelerator._compile_backend:
        traits["compile_backend"] = accelerator._compile_backend
    for method, trait in _TRAITS.items():
        if _overrides(cls, method):
            traits[trait] = getattr(accelerator, method)()
    if _overrides(cls, "device_name"):
        traits["indexed_names"] = ":" in str(accelerator.device_name(0))
    return traits


def _slots_of(cls):
    """Return a backend class that calls the methods that the accelerator class `cls` overrides, and
    no others.
    """

    def __init__(self, accelerator):
        self._accelerator = accelerator

    slots = {"__init__": __init__}
    for name in _SAME:
        if _overrides(cls, name):
            slots[name] = _asking(name)
    if _overrides(cls, "available_memory", "total_memory"):
        slots["memory_info"] = _memory_info
    if _overrides(cls, "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        slots["memory_stats"] = _memory_stats
    if _overrides(cls, "is_bf16_supported", "is_fp16_supported"):
        slots["dtype_support"] = _dtype_support
    if _overrides(cls, "range_push"):
        slots["range_push"] = lambda self, message, domain, category: self._accelerator.range_push(message)
    if _overrides(cls, "range_pop"):
        slots["range_pop"] = lambda self, domain: self._accelerator.range_pop()
    return type(cls.__name__, (_backend.Backend,), slots)


def _asking(name):

    def slot(self, *arguments):
        return getattr(self._accelerator, name)(*arguments)

    return slot


def _memory_info(self, index):
    free, total = _asked(self._accelerator, index, "available_memory", "total_memory")
    if free is None or total is None:
        known = _backend.Backend.memory_info(self, index)
        free, total = known.free if free is None else free, known.total if total is None else total
    return free, total


def _memory_stats(self, index):
    allocated = _asked(self._accelerator, index, "memory_allocated", "max_memory_allocated")
    reserved = _asked(self._accelerator, index, "memory_reserved", "max_memory_reserved")
    stats = {}
    if None in allocated + reserved:
        stats = _backend.Backend.memory_stats(self, index)
    for key, given in (("allocated_bytes", allocated), ("reserved_bytes", reserved)):
        stats[key] = tuple(known if new is None else new for new, known in zip(given, stats.get(key, given)))
    return stats


def _asked(accelerator, index, *methods):
    """Return the results of overridden methods, and None for other methods, because calling those
    would recurse into this backend.
    """
    return tuple(getattr(accelerator, name)(index) if _overrides(type(accelerator), name) else None for name in methods)


def _dtype_support(self, index, dtype):
    import torch
    cls = type(self._accelerator)
    for name, kind in (("is_bf16_supported", torch.bfloat16), ("is_fp16_supported", torch.float16)):
        if dtype is kind and _overrides(cls, name):
            return bool(getattr(self._accelerator, name)())
    return _backend.Backend.dtype_support(self, index, dtype)
