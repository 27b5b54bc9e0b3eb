"""The accelerator object for DeepSpeed: AnyAccel's accelerator, adapted to DeepSpeed's base class.

Most members are those of our accelerator. The others do what DeepSpeed's Python code expects of its
own accelerators. A synchronous device (cpu) has no streams, and its device indices are local ranks,
which are ignored.
"""

import contextlib
import sys

import torch

from .. import _native
from ..errors import Error
from .builders import builder_class

# Inherited from DeepSpeed's base class, which counts pinned memory and has its own pinning backend.
# The base class calls the _torch_* methods below.
_THEIRS = {"pin_memory", "pin_empty", "pin_empty_like", "is_pinned", "unpin_memory"}
_PROPERTIES = ("BFloat16Tensor", "ByteTensor", "DoubleTensor", "Event", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "Stream")
# Methods with a device index as their only argument.
_OF_A_DEVICE = ("available_memory", "device", "device_name", "max_memory_allocated", "max_memory_cached", "max_memory_reserved",
                "memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "reset_max_memory_allocated",
                "reset_max_memory_cached", "reset_peak_memory_stats", "synchronize", "total_memory", "get_rng_state")
_MEMORY_COUNTS = ("available_memory", "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "memory_allocated",
                  "memory_cached", "memory_reserved", "total_memory")
# Methods whose results are constant on every device, and methods whose results are constant only on
# cpu.
_CONSTANTS = ("handles_memory_backpressure", "is_synchronized_device", "resolves_data_dependency", "use_host_timers")
_CONSTANTS_OF_THE_HOST = ("current_device_name", "is_available", "is_bf16_supported", "is_fp16_supported", "is_triton_supported")

# Module of the op that allocates memory for DS_PIN_MEMORY_BACKEND=native. It is in sys.modules once
# the op is loaded.
_POOL = "anyaccel.ops.pin_memory"

_made = None


def accelerator():
    """Return this process's accelerator object for DeepSpeed, creating it if necessary."""
    global _made
    if _made is None:
        from .._native import get_accelerator
        # This imports all of DeepSpeed, which may call this function and create the object.
        from deepspeed.accelerator.abstract_accelerator import DeepSpeedAccelerator
        if _made is None:
            own = get_accelerator()
            _made = _adapter_class(DeepSpeedAccelerator, own)(own)
    return _made


def give(real):
    """Set the accelerator in `real`, the DeepSpeed module that stores it, right after that module
    is executed.
    """
    real.set_accelerator(accelerator())


def _adapter_class(base, own):
    """Return the class of the accelerator object for DeepSpeed.

    All methods are attributes of the class, not of the object, because lookups in an object with
    many attributes take three times as long.
    """
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
    members.update(_memory_counts(members))
    members.update(_constants(own))
    return type(base)("Accelerator", (base,), members)


def _memory_counts(members):
    """Return memory queries that return 0 if the device does not report its memory.

    ZeRO 1 and 2 then build their flat buffers in host memory.
    """

    def zero_if_unsupported(function):

        def count(device_index=None):
            try:
                return function(device_index)
            except Error as error:
                if error.code != "unsupported":
                    raise
                return 0

        return staticmethod(count)

    return {name: zero_if_unsupported(members[name].__func__) for name in _MEMORY_COUNTS}


def _forwarding_property(name):
    return property(lambda self: getattr(self._own, name))


def _without_streams(own):
    """Return the methods that DeepSpeed expects of a synchronous device."""
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


# DeepSpeed's launcher requires at least one variable, which it sets for its ranks. DeepSpeed's own
# CPU accelerator returns this one.
_VISIBLE_DEVICES = {"visible_devices_envs": staticmethod(lambda: ["CUDA_VISIBLE_DEVICES"]), "set_visible_devices_envs": staticmethod(_set_visible_devices)}


def _ignoring_index(function):

    def ignoring_index(device_index=None):
        return function()

    return ignoring_index


def _taking_any_index(function):
    """Wrap the function so that it accepts an index of any type: ZeRO-3 passes LOCAL_RANK as a str,
    and ZeRO-3 and quantized weights pass a torch.device.
    """

    def taking_any_index(device_index=None):
        if isinstance(device_index, str):
            device_index = int(device_index)
        elif isinstance(device_index, torch.device):
            device_index = device_index.index
        return function(device_index)

    return taking_any_index


def _constants(own):
    """Return methods with constant results.

    The result is empty for an instance of a user's class, whose methods must be called each time.
    """
    if not isinstance(own, _native.Accelerator):
        return {}
    host = own.name() == "cpu"
    made = {name: _saying(name, getattr(own, name)()) for name in _CONSTANTS + (_CONSTANTS_OF_THE_HOST if host else ())}
    if host:
        made["device_name"] = _saying_of_any_device(own.device_name())
    return made


def _of_group_at_hand(name):
    """Return the communication backend for DeepSpeed.

    DeepSpeed uses a process group that the program has created, except with "ccl". In that case, it
    starts its own group, which requires the environment variables that a launcher sets. Therefore,
    if a group exists, the name of its backend replaces "ccl".
    """
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
        # If the device is the host, pinning has no effect, and DeepSpeed treats host memory as not
        # pinned.
        self._torch_pins_host_memory = own.device_type() != "cpu"
        self._known_communication_backend = None  # determined on first use, because it may take a second

    def __repr__(self):
        return f"<anyaccel.deepspeed.accelerator() {self._name!r}>"

    # DeepSpeed's code reads these two fields of an accelerator.
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
        """Return torch.random, because DeepSpeed uses its functions, for example `fork_rng`."""
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
        """Return the prefixes of the device's environment variables, and of other variables that
        must have the same value in ranks on other hosts.
        """
        return [*self._own.export_envs(), "ANYACCEL", "DS_ACCELERATOR"]

    def _torch_pin_memory(self, tensor):
        return self._own.pin_memory(tensor)

    def _torch_empty_pinned(self, tensor, shape):
        return self._own.pin_empty(*shape, dtype=tensor.dtype)

    def _torch_is_pinned(self, tensor):
        pool = sys.modules.get(_POOL)
        return self._own.is_pinned(tensor) and not (pool is not None and pool.is_freed(tensor))

    def register_host_memory(self, address, num_bytes):
        """Return False, without an error, for memory that the accelerator's allocator has already
        pinned.

        With DS_PIN_MEMORY_BACKEND=native, DeepSpeed registers the memory that it gets from
        AnyAccel's pin_memory op.
        """
        pool = sys.modules.get(_POOL)
        if pool is not None and pool.is_given(address):
            return False
        return self._own.register_host_memory(address, num_bytes)

    def __reduce__(self):
        return accelerator, ()
