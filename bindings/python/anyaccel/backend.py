"""Python backends: classes that derive from `Backend`, registered by name or found through an entry
point.

    class MyCard(anyaccel.Backend):
        def properties(self, index):
            return {"name": "My Card", "multi_processor_count": 8}

    anyaccel.register_backend("mycard", MyCard, device_type="mycard")

After registration, the backend works like a C++ backend: detection probes it,
`DS_ACCELERATOR=mycard` selects it, and C++ code in this process (communication, ops, the
conformance kit) calls it. See docs/reference/python-backend.md.
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from . import _native
from ._untrusted_text import printable_text
from .errors import make_error

if TYPE_CHECKING:
    from .backend_parts import EventPart, GraphPart, HostAllocator
    from .op_builder import OpBuilder

GROUP = "anyaccel.backends"


class Backend:
    """Base class for backends written in Python.

    A Python backend extends an underlying native backend: the registered backend `base` if given,
    otherwise the generic LibTorch backend for the device type. Methods that a class does not
    define, and `super()` in an overriding method, call the underlying backend.

    Arguments are validated before the call; indices, for example, are in range. Methods may be
    called from any thread, with the GIL held. Frequently called methods should be short. For
    unsupported operations, raise `anyaccel.Error(text, "unsupported")` or NotImplementedError.
    """

    _below: Any = None
    _builders: Any = None
    _op_builder_dir: str | None = None
    _name: str
    traits: ClassVar[dict[str, Any]] = {}

    @classmethod
    def start(cls) -> None:
        """Prepare the process, for example by loading the vendor's library or renaming PrivateUse1.

        Called once, when the backend is selected and before its object is created. Does nothing by
        default.
        """

    @property
    def name(self) -> str:
        """The backend's name in the registry."""
        return self._name

    # Devices

    def device_count(self) -> int:
        """Return the number of devices that this process may use, without initializing a device."""
        return self._below.device_count()

    def current_device(self) -> int:
        """Return the index of this thread's current device."""
        return self._below.current_device()

    def set_device(self, index: int) -> None:
        """Make a device this thread's current device."""
        self._below.at(index).set_device(index)

    def synchronize(self, index: int) -> None:
        """Wait for all work on a device."""
        self._below.at(index).synchronize(index)

    def is_initialized(self) -> bool:
        """Return whether a device has been initialized in this process."""
        return self._below.is_initialized()

    def properties(self, index: int) -> _native.DeviceProperties | dict[str, Any]:
        """Return a DeviceProperties, or a dict of its fields. A missing field means that the
        property is unknown.
        """
        return self._below.at(index).properties(index)

    def dtype_support(self, index: int, dtype: torch.dtype) -> _native.DtypeSupport | dict[str, bool] | bool:
        """Return a DtypeSupport, a dict of its fields (missing fields are False), or one bool for
        all fields.
        """
        return self._below.at(index).dtype_support(index, dtype)

    # Random numbers

    def default_generator(self, index: int) -> torch.Generator:
        """Return the device's default torch.Generator, whose seed and state the accelerator's
        random-number functions get and set.
        """
        return self._below.at(index).default_generator(index)

    # Streams and events

    def current_stream(self, index: int) -> torch.Stream:
        """Return this thread's current torch.Stream on a device."""
        return self._below.at(index).current_stream(index)

    def set_stream(self, stream: torch.Stream) -> None:
        """Make a stream current on its device, for this thread."""
        self._below.set_stream(stream)

    def default_stream(self, index: int) -> torch.Stream:
        """Return the device's default stream."""
        return self._below.at(index).default_stream(index)

    def new_stream(self, index: int, priority: int) -> torch.Stream:
        """Return a new or pooled stream. Lower priority numbers are more urgent."""
        return self._below.at(index).new_stream(index, priority)

    def new_event(self, index: int, enable_timing: bool) -> EventPart | None:
        """Return an object with record(stream), wait(stream), query(), synchronize() and
        elapsed_time(end)."""
        return self._below.at(index).new_event(index, enable_timing)

    # Memory

    def memory_stats(self, index: int) -> dict[str, Any]:
        """Return a dict with allocated_bytes, reserved_bytes and allocation_count, each as
        (current, peak), and with num_alloc_retries and num_ooms.
        """
        return self._below.at(index).memory_stats(index)

    def memory_info(self, index: int) -> _native.MemoryInfo | tuple[int, int]:
        """Return (free, total) in bytes. Memory that other processes use is not free."""
        return self._below.at(index).memory_info(index)

    def reset_peak_memory_stats(self, index: int) -> None:
        """Reset the peaks to the current values."""
        self._below.at(index).reset_peak_memory_stats(index)

    def empty_cache(self) -> None:
        """Release unused cached memory of all devices."""
        self._below.empty_cache()

    def host_allocator(self) -> HostAllocator | None:
        """Return the allocator for host memory that the device can read directly.

        The result is None if host memory does not need pinning. Otherwise, it is the result of
        `super()`, or an object with two methods: allocate(num_bytes), which returns an address (0
        or None if out of memory), and free(address). Called once.
        """
        return self._below.host_allocator()

    def register_host_memory(self, address: int, num_bytes: int) -> bool:
        """Page-lock the caller's memory. Return False if that has no effect on this device."""
        return self._below.register_host_memory(address, num_bytes)

    def unregister_host_memory(self, address: int) -> None:
        """Unregister memory registered with register_host_memory()."""
        self._below.unregister_host_memory(address)

    # Graphs

    def new_graph(self) -> GraphPart:
        """Return an object with capture_begin(pool), capture_end(), replay(), reset() and
        pool()."""
        return self._below.new_graph()

    def is_current_stream_capturing(self) -> bool:
        """Return whether this thread's work is being captured."""
        return self._below.is_current_stream_capturing()

    # Ops and environment

    def create_op_builder(self, class_name: str) -> OpBuilder | None:
        """Return an anyaccel.OpBuilder, or None to use the underlying backend's builder.

        The default implementation returns builders from the package `op_builder_dir`.
        """
        if self._builders is None:
            from .op_builder import classes_of
            self._builders = classes_of(self._op_builder_dir)
        cls = self._builders.get(class_name)
        return None if cls is None else cls()

    def range_push(self, message: str, domain: str, category: str) -> None:
        """Open a named range in the profiler."""
        self._below.range_push(message, domain, category)

    def range_pop(self, domain: str) -> None:
        """Close the innermost range."""
        self._below.range_pop(domain)


def given_slots(cls, traits):
    """Return the names of the functions that a class overrides. C++ calls only these in Python."""
    given = [name for name in _native.backend_slots if getattr(cls, name) is not getattr(Backend, name)]
    return given + (["create_op_builder"] if traits.get("op_builder_dir") else [])


def over(below, traits, cls, **arguments):
    """Return the C++ object of a Python backend of class `cls` that extends the native backend
    `below`.
    """
    made = cls.__new__(cls)
    made._below, made._name, made._op_builder_dir = below, traits["name"], traits.get("op_builder_dir")
    made.__init__(**arguments)
    return _native.make_python_backend(below, traits, made, given_slots(cls, traits))


def below(traits, base):
    """Return the native backend that a Python backend class extends: the registered backend `base`,
    or the generic LibTorch backend.
    """
    return _native.make_registered_backend(base) if base else _native.make_torch_backend(traits)


def register_backend(name: str, cls: type[Backend], *, base: str | None = None, probe: Callable[[], int | tuple[int, str]] | None = None,
                     **traits: Any) -> None:
    """Register a Python backend, so that DS_ACCELERATOR and set_accelerator() accept its name.

    base: registered backend that provides the traits and functions that the class does not define
        (default: the generic LibTorch backend for `device_type`).
    probe: function that counts devices without initializing one. It returns the count, or
        (count, reason) with the reason as a sentence (default: the class's static method `probe` if
        it has one, otherwise the probe of the underlying backend).
    traits: all other keywords, such as device_type, communication_backend, priority and
        op_builder_dir (docs/reference/python-backend.md). A class may also define them as a dict
        `traits`.

    Raises `invalid_argument` if the name is taken, the class does not derive from Backend, or a
    trait is unknown.
    """
    if not (isinstance(cls, type) and issubclass(cls, Backend)):
        raise make_error("invalid_argument", "register_backend", "the class does not derive from anyaccel.Backend", got=repr(cls))
    traits = {"class_name": cls.__name__, **cls.traits, **traits, "name": name}
    base = base or traits.pop("base", None)
    traits.pop("base", None)
    if not base and "device_type" not in traits:
        raise make_error("invalid_argument", "register_backend", f"the backend {name!r} requires `base` or `device_type`")

    def make():
        cls.start()
        return over(below(traits, base), traits, cls)

    _native.register_backend(traits, base or "", make, probe or getattr(cls, "probe", None))


_tried = set()


def load_entry_points(name: str | None = None) -> None:
    """Register the backends that the entry points in the group `anyaccel.backends` declare, or only
    the backend `name`.

    An entry point names a class that derives from Backend, or a function that registers one. If it
    cannot be loaded, its backend is registered as unavailable, with the reason.
    """
    import importlib.metadata
    wanted = name or os.environ.get("DS_ACCELERATOR")
    for point in importlib.metadata.entry_points(group=GROUP):
        # Do not import the packages of other backends.
        if (wanted and point.name != wanted) or point.name in _tried:
            continue
        _tried.add(point.name)
        try:
            _register_found(point)
        except Exception as error:  # noqa: BLE001  (the author's code may raise anything)
            _register_broken(point, error)


def _register_found(point):
    offered = point.load()
    if isinstance(offered, type):
        register_backend(point.name, offered)
        return
    offered()
    if point.name not in _native.registered_backends():
        raise make_error("not_found", "anyaccel.backends", f"{point.value} did not register a backend named {point.name!r}")


def _register_broken(point, error):
    reason = f"cannot load the entry point {point.value}: {type(error).__name__}: {printable_text(error, 1000)}"
    if os.environ.get("DS_ACCELERATOR") != point.name:
        warnings.warn(f"anyaccel: skipping the backend {point.name!r}: {reason}", stacklevel=2)
    if point.name not in _native.registered_backends():
        register_backend(point.name, Backend, device_type=point.name, probe=lambda: (0, reason))


_native.add_backend_finder(load_entry_points)
# After this handler has run, C++ calls the underlying backends instead of Python. The handler is
# registered early so that it runs late, because atexit runs handlers in reverse order.
atexit.register(_native.python_ends)
