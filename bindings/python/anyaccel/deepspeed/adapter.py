"""The object that DeepSpeed gets: AnyAccel's accelerator behind DeepSpeed's base class.

Most members are those of our accelerator itself. What differs is what DeepSpeed's Python expects of its own accelerators: on a device
whose calls are done when they return (cpu) there are no streams, and a device index there is a local rank, which says nothing."""

import contextlib

import torch

from .builders import builder_class

# As in DeepSpeed's base class, which counts pinned memory, has a backend of its own, and asks the three methods below for the rest.
_THEIRS = {"pin_memory", "pin_empty", "pin_empty_like", "is_pinned", "unpin_memory"}
_PROPERTIES = ("BFloat16Tensor", "ByteTensor", "DoubleTensor", "Event", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "Stream")
# Methods whose only argument is a device's index, and what else takes one.
_OF_A_DEVICE = ("available_memory", "device", "device_name", "max_memory_allocated", "max_memory_cached", "max_memory_reserved",
                "memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "reset_max_memory_allocated",
                "reset_max_memory_cached", "reset_peak_memory_stats", "synchronize", "total_memory", "get_rng_state")

_made = None
_class = None


def accelerator():
    """The one of this process."""
    global _made
    if _made is None:
        from .. import get_accelerator
        # First: importing this imports all of DeepSpeed, which may come back here and make it.
        from deepspeed.accelerator.abstract_accelerator import DeepSpeedAccelerator
        if _made is None:
            _made = _adapter_class(DeepSpeedAccelerator)(get_accelerator())
    return _made


def give(real):
    """Called right after DeepSpeed's module that keeps the accelerator was executed."""
    real.set_accelerator(accelerator())


def _adapter_class(base):
    global _class
    if _class is None:
        members = dict(vars(_Members))
        for name in ("__dict__", "__weakref__"):
            members.pop(name, None)
        for name in dir(base):
            if not name.startswith("_") and name not in members and name not in _THEIRS:
                members[name] = _forwarding_property(name) if name in _PROPERTIES else _forwarding(name)
        _class = type(base)("Accelerator", (base,), members)
    return _class


def _forwarding_property(name):
    return property(lambda self: getattr(self._own, name))


def _forwarding(name):

    def method(self, *arguments, **keywords):
        return getattr(self._own, name)(*arguments, **keywords)

    method.__name__ = name
    return method


class _Members:

    def __init__(self, own):
        self._own = own
        self._name = own.name()
        self._builders = {}
        self._synchronous = own.is_synchronized_device()
        self.supports_nvtx_domain = own.supports_nvtx_domain()
        # pinning the host's memory for the host means nothing, and DeepSpeed counts it as not pinned
        self._torch_pins_host_memory = own.device_type() != "cpu"
        ours = type(self)
        for name in dir(ours):
            # Bound once: a call then costs what our accelerator's does.
            if not name.startswith("_") and name not in vars(_Members) and name not in _THEIRS and callable(getattr(ours, name)):
                setattr(self, name, getattr(own, name))
        if self._synchronous:
            self._without_streams(own)

    def _without_streams(self, own):
        for name in _OF_A_DEVICE:
            setattr(self, name, _ignoring_index(getattr(own, name)))
        self.set_device = lambda device_index: None
        self.default_generator = lambda device_index=None: own.default_generator(0)
        self.set_rng_state = lambda new_state, device_index=None: own.set_rng_state(new_state)
        self.current_stream = self.default_stream = lambda device_index=None: None
        self.stream = lambda stream: contextlib.nullcontext() if stream is None else own.stream(stream)
        self.create_graph = lambda: None
        self.capture_to_graph = lambda graph, pool=None, stream=None: contextlib.nullcontext()
        self.replay_graph = lambda graph: None

    def __repr__(self):
        return f"<anyaccel.deepspeed.accelerator() {self._name!r}>"

    # DeepSpeed's code looks at these two fields of an accelerator.
    @property
    def _communication_backend_name(self):
        return self._own.communication_backend_name()

    @property
    def _compile_backend(self):
        return self._own.get_compile_backend()

    @property
    def Stream(self):
        return None if self._synchronous else self._own.Stream

    @property
    def Event(self):
        return None if self._synchronous else self._own.Event

    def random(self):
        """torch.random: DeepSpeed reaches through it for `fork_rng` and the like."""
        return torch.random

    def get_op_builder(self, class_name):
        made = self._builders.get(class_name)
        if made is None:
            made = self._builders[class_name] = builder_class(self._own, class_name)
        return made

    def create_op_builder(self, class_name):
        return self.get_op_builder(class_name)()

    def op_builder_dir(self):
        return __package__ + ".op_builder"

    def export_envs(self):
        """Those of the device, and what makes the ranks of other hosts like this one."""
        return [*self._own.export_envs(), "ANYACCEL", "DS_ACCELERATOR"]

    def _torch_pin_memory(self, tensor):
        return self._own.pin_memory(tensor)

    def _torch_empty_pinned(self, tensor, shape):
        return self._own.pin_empty(*shape, dtype=tensor.dtype)

    def _torch_is_pinned(self, tensor):
        return self._own.is_pinned(tensor)

    def __reduce__(self):
        return accelerator, ()


def _ignoring_index(function):

    def ignoring_index(device_index=None):
        return function()

    return ignoring_index
