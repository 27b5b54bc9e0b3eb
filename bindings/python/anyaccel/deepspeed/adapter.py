"""The object that DeepSpeed gets: AnyAccel's accelerator behind DeepSpeed's base class.

Most members are those of our accelerator itself. What differs is what DeepSpeed's Python expects of its own accelerators: on a device
whose calls are done when they return (cpu) there are no streams, and a device index there is a local rank, which says nothing."""

import contextlib
import sys

import torch

from .. import _native
from .builders import builder_class

# As in DeepSpeed's base class, which counts pinned memory, has a backend of its own, and asks the three methods below for the rest.
_THEIRS = {"pin_memory", "pin_empty", "pin_empty_like", "is_pinned", "unpin_memory"}
_PROPERTIES = ("BFloat16Tensor", "ByteTensor", "DoubleTensor", "Event", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "Stream")
# Methods whose only argument is a device's index, and what else takes one.
_OF_A_DEVICE = ("available_memory", "device", "device_name", "max_memory_allocated", "max_memory_cached", "max_memory_reserved",
                "memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "reset_max_memory_allocated",
                "reset_max_memory_cached", "reset_peak_memory_stats", "synchronize", "total_memory", "get_rng_state")
# What never changes: on every device, and on the host alone, where it says nothing of one device.
_CONSTANTS = ("handles_memory_backpressure", "is_synchronized_device", "resolves_data_dependency", "use_host_timers")
_CONSTANTS_OF_THE_HOST = ("current_device_name", "is_available", "is_bf16_supported", "is_fp16_supported", "is_triton_supported")

# The op that allocates memory for DS_PIN_MEMORY_BACKEND=native, once loaded.
_POOL = "anyaccel.ops.pin_memory"

_made = None


def accelerator():
    """The one of this process."""
    global _made
    if _made is None:
        from .._native import get_accelerator
        # First: importing this imports all of DeepSpeed, which may come back here and make it.
        from deepspeed.accelerator.abstract_accelerator import DeepSpeedAccelerator
        if _made is None:
            own = get_accelerator()
            _made = _adapter_class(DeepSpeedAccelerator, own)(own)
    return _made


def give(real):
    """Called right after DeepSpeed's module that keeps the accelerator was executed."""
    real.set_accelerator(accelerator())


def _adapter_class(base, own):
    """All methods stand in the class, which has one object: Python finds them there at once, and in an object with many fields in
    three times that."""
    members = dict(vars(_Members))
    for name in ("__dict__", "__weakref__"):
        members.pop(name, None)
    for name in dir(base):
        if not name.startswith("_") and name not in members and name not in _THEIRS:
            members[name] = _forwarding_property(name) if name in _PROPERTIES else staticmethod(getattr(own, name))
    if own.is_synchronized_device():
        members.update(_without_streams(own))
    else:
        members.update({name: staticmethod(_taking_any_index(getattr(own, name))) for name in ("current_stream", "device_name", "set_device")})
    if not own.visible_devices_envs():
        members.update(_VISIBLE_DEVICES)
    members.update(_constants(own))
    return type(base)("Accelerator", (base,), members)


def _forwarding_property(name):
    return property(lambda self: getattr(self._own, name))


def _without_streams(own):
    """What DeepSpeed expects where calls are done when they return."""
    made = {name: _ignoring_index(getattr(own, name)) for name in _OF_A_DEVICE}
    made |= {
        "set_device": lambda device_index: None,
        "default_generator": lambda device_index=None: own.default_generator(0),
        "set_rng_state": lambda new_state, device_index=None: own.set_rng_state(new_state),
        "current_stream": lambda device_index=None: None,
        "default_stream": lambda device_index=None: None,
        "stream": lambda stream: contextlib.nullcontext() if stream is None else own.stream(stream),
        "create_graph": lambda: None,
        "capture_to_graph": lambda graph, pool=None, stream=None: contextlib.nullcontext(),
        "replay_graph": lambda graph: None,
    }
    return {name: staticmethod(function) for name, function in made.items()}


def _set_visible_devices(current_env, local_accelerator_ids):
    current_env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, local_accelerator_ids))


# DeepSpeed's launcher wants one variable at least, and each set for its ranks; its own accelerator of the CPU names this one.
_VISIBLE_DEVICES = {"visible_devices_envs": staticmethod(lambda: ["CUDA_VISIBLE_DEVICES"]), "set_visible_devices_envs": staticmethod(_set_visible_devices)}


def _ignoring_index(function):

    def ignoring_index(device_index=None):
        return function()

    return ignoring_index


def _taking_any_index(function):
    """ZeRO-3 gives the text of LOCAL_RANK, and to set_device() a torch.device, as quantized weights do to current_stream()."""

    def taking_any_index(device_index=None):
        if isinstance(device_index, str):
            device_index = int(device_index)
        elif isinstance(device_index, torch.device):
            device_index = device_index.index
        return function(device_index)

    return taking_any_index


def _constants(own):
    """Methods that only say what they know. What somebody's class says is asked each time."""
    if not isinstance(own, _native.Accelerator):
        return {}
    host = own.name() == "cpu"
    made = {name: _saying(name, getattr(own, name)()) for name in _CONSTANTS + (_CONSTANTS_OF_THE_HOST if host else ())}
    if host:
        made["device_name"] = _saying_of_any_device(own.device_name())
    return made


def _of_group_at_hand(name):
    """DeepSpeed takes a process group that the program made, but for "ccl", whose own it starts, which wants a launcher's variables."""
    if name == "ccl" and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_backend()
    return name


def _saying(name, value):

    def method(self):
        return value

    method.__name__ = name
    return method


def _saying_of_any_device(value):

    def device_name(self, device_index=None):
        return value

    return device_name


class _Members:

    def __init__(self, own):
        self._own = own
        self._name = own.name()
        self._builders = {}
        self._synchronous = own.is_synchronized_device()
        self.supports_nvtx_domain = own.supports_nvtx_domain()
        # pinning the host's memory for the host means nothing, and DeepSpeed counts it as not pinned
        self._torch_pins_host_memory = own.device_type() != "cpu"
        self._known_communication_backend = None  # looked for when first asked: it may take a second

    def __repr__(self):
        return f"<anyaccel.deepspeed.accelerator() {self._name!r}>"

    # DeepSpeed's code looks at these two fields of an accelerator.
    @property
    def _communication_backend_name(self):
        return self.communication_backend_name()

    @property
    def _compile_backend(self):
        return self._own.get_compile_backend()

    def communication_backend_name(self):
        name = self._known_communication_backend
        if name is None:
            name = self._known_communication_backend = _of_group_at_hand(self._own.communication_backend_name())
        return name

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
        pool = sys.modules.get(_POOL)
        return self._own.is_pinned(tensor) and not (pool is not None and pool.is_freed(tensor))

    def register_host_memory(self, address, num_bytes):
        """Return False, without an error, for memory that the accelerator's allocator has pinned, because DS_PIN_MEMORY_BACKEND=native
        registers the memory that it gets from our pin_memory op."""
        pool = sys.modules.get(_POOL)
        if pool is not None and pool.is_given(address):
            return False
        return self._own.register_host_memory(address, num_bytes)

    def __reduce__(self):
        return accelerator, ()
