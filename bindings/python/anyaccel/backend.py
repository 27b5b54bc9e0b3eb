"""Backends written in Python: a class of the base `Backend`, registered by name or found by an entry point.

    class MyCard(anyaccel.Backend):
        def properties(self, index):
            return {"name": "My Card", "multi_processor_count": 8}

    anyaccel.register_backend("mycard", MyCard, device_type="mycard")

From then on it is a backend like those of C++: detection asks it, `DS_ACCELERATOR=mycard` chooses it, and C++ code of this process
(communication, ops, the conformance kit) calls it. docs/reference/python-backend.md has the rest.
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
    """Base of a backend in Python. What a class leaves out is that of the backend below it, which `super()` reaches: torch's generic
    one for the device type, or the registered one that `base=` named.

    Arguments arrive checked: an index is in range. Functions are called from any thread, with Python's lock; keep those short that
    programs call often. To refuse, raise `anyaccel.Error(text, "unsupported")` or NotImplementedError."""

    _below: Any = None
    _builders: Any = None
    _op_builder_dir: str | None = None
    _name: str
    traits: ClassVar[dict[str, Any]] = {}

    @classmethod
    def start(cls) -> None:
        """Called once, when the backend is chosen and before its object is made: what changes the process (loading the vendor's
        library, renaming PrivateUse1) belongs here. Nothing by default."""

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return self._name

    # Devices

    def device_count(self) -> int:
        """Devices that this process may use; starts nothing."""
        return self._below.device_count()

    def current_device(self) -> int:
        """This thread's device."""
        return self._below.current_device()

    def set_device(self, index: int) -> None:
        """Makes a device this thread's."""
        self._below.at(index).set_device(index)

    def synchronize(self, index: int) -> None:
        """Waits for all work on a device."""
        self._below.at(index).synchronize(index)

    def is_initialized(self) -> bool:
        """Whether the device runs in this process."""
        return self._below.is_initialized()

    def properties(self, index: int) -> _native.DeviceProperties | dict[str, Any]:
        """A DeviceProperties, or a dict of its fields: those left out stay unknown."""
        return self._below.at(index).properties(index)

    def dtype_support(self, index: int, dtype: torch.dtype) -> _native.DtypeSupport | dict[str, bool] | bool:
        """A DtypeSupport, a dict of its fields (left out: False), or one bool for all of them."""
        return self._below.at(index).dtype_support(index, dtype)

    # Random numbers

    def default_generator(self, index: int) -> torch.Generator:
        """The device's torch.Generator; seeds and states go through it."""
        return self._below.at(index).default_generator(index)

    # Streams and events

    def current_stream(self, index: int) -> torch.Stream:
        """A torch.Stream: this thread's on a device."""
        return self._below.at(index).current_stream(index)

    def set_stream(self, stream: torch.Stream) -> None:
        """Makes a stream current on its device, for this thread."""
        self._below.set_stream(stream)

    def default_stream(self, index: int) -> torch.Stream:
        """The device's stream when none was chosen."""
        return self._below.at(index).default_stream(index)

    def new_stream(self, index: int, priority: int) -> torch.Stream:
        """A new or pooled stream; lower priorities are more urgent."""
        return self._below.at(index).new_stream(index, priority)

    def new_event(self, index: int, enable_timing: bool) -> EventPart | None:
        """An object with record(stream), wait(stream), query(), synchronize() and elapsed_time(end)."""
        return self._below.at(index).new_event(index, enable_timing)

    # Memory

    def memory_stats(self, index: int) -> dict[str, Any]:
        """A dict: allocated_bytes, reserved_bytes, allocation_count as (current, peak); num_alloc_retries, num_ooms."""
        return self._below.at(index).memory_stats(index)

    def memory_info(self, index: int) -> _native.MemoryInfo | tuple[int, int]:
        """(free, total) bytes, other processes counted."""
        return self._below.at(index).memory_info(index)

    def reset_peak_memory_stats(self, index: int) -> None:
        """Starts the peaks anew."""
        self._below.at(index).reset_peak_memory_stats(index)

    def empty_cache(self) -> None:
        """Gives unused cached memory of all devices back."""
        self._below.empty_cache()

    def host_allocator(self) -> HostAllocator | None:
        """Allocates host memory that the device reads fast: None where host memory needs no pinning, that of `super()`, or an object with
        allocate(num_bytes), which gives an address (0 or None: there is no more), and free(address). Asked once."""
        return self._below.host_allocator()

    def register_host_memory(self, address: int, num_bytes: int) -> bool:
        """Page-locks memory of the caller; False where that has no meaning."""
        return self._below.register_host_memory(address, num_bytes)

    def unregister_host_memory(self, address: int) -> None:
        """Ends that."""
        self._below.unregister_host_memory(address)

    # Graphs

    def new_graph(self) -> GraphPart:
        """An object with capture_begin(pool), capture_end(), replay(), reset() and pool()."""
        return self._below.new_graph()

    def is_current_stream_capturing(self) -> bool:
        """True when this thread's work is being recorded."""
        return self._below.is_current_stream_capturing()

    # Ops and environment

    def create_op_builder(self, class_name: str) -> OpBuilder | None:
        """An anyaccel.OpBuilder, or None for what the backend below has: those of the package `op_builder_dir`, by default."""
        if self._builders is None:
            from .op_builder import classes_of
            self._builders = classes_of(self._op_builder_dir)
        cls = self._builders.get(class_name)
        return None if cls is None else cls()

    def range_push(self, message: str, domain: str, category: str) -> None:
        """Opens a named range in the profiler."""
        self._below.range_push(message, domain, category)

    def range_pop(self, domain: str) -> None:
        """Closes it."""
        self._below.range_pop(domain)


def given_slots(cls, traits):
    """The functions that a class gives itself: only these are called in Python."""
    given = [name for name in _native.backend_slots if getattr(cls, name) is not getattr(Backend, name)]
    return given + (["create_op_builder"] if traits.get("op_builder_dir") else [])


def over(below, traits, cls, **arguments):
    """C++'s object of a backend of class `cls` over the one of C++ `below`."""
    made = cls.__new__(cls)
    made._below, made._name, made._op_builder_dir = below, traits["name"], traits.get("op_builder_dir")
    made.__init__(**arguments)
    return _native.make_python_backend(below, traits, made, given_slots(cls, traits))


def below(traits, base):
    """The backend that a Python class is laid over: the registered one `base`, or torch's generic one."""
    return _native.make_registered_backend(base) if base else _native.make_torch_backend(traits)


def register_backend(name: str, cls: type[Backend], *, base: str | None = None, probe: Callable[[], int | tuple[int, str]] | None = None,
                     **traits: Any) -> None:
    """Offers a backend in Python under a name, which DS_ACCELERATOR and set_accelerator() then take.

    `base`: a registered backend that it differs from, whose traits and functions it has as far as it says nothing else; none: torch's
    generic one for `device_type`. `probe()` counts devices and starts none: a number, or a number and the reason as a sentence;
    the class's static method `probe` stands for it, else the one below is asked. All other keywords are traits (docs/reference/python-backend.md):
    device_type, communication_backend, priority, op_builder_dir, ... A class may have them as a dict `traits`, too.
    `invalid_argument` where the name is taken, the class is no Backend or a trait is none."""
    if not (isinstance(cls, type) and issubclass(cls, Backend)):
        raise make_error("invalid_argument", "register_backend", "the class does not derive from anyaccel.Backend", got=repr(cls))
    traits = {"class_name": cls.__name__, **cls.traits, **traits, "name": name}
    base = base or traits.pop("base", None)
    traits.pop("base", None)
    if not base and "device_type" not in traits:
        raise make_error("invalid_argument", "register_backend", "neither `base` nor `device_type` says what device it drives",
                         got=f"the backend {name!r}")

    def make():
        cls.start()
        return over(below(traits, base), traits, cls)

    _native.register_backend(traits, base or "", make, probe or getattr(cls, "probe", None))


_tried = set()


def load_entry_points(name: str | None = None) -> None:
    """Registers what entry points of the group `anyaccel.backends` offer: each names a class of the base Backend, or a function that
    registers it. One that cannot be loaded becomes a backend that cannot run, with the reason. `name`: that one alone."""
    import importlib.metadata
    wanted = name or os.environ.get("DS_ACCELERATOR")
    for point in importlib.metadata.entry_points(group=GROUP):
        # Packages that nobody asks for are not imported.
        if (wanted and point.name != wanted) or point.name in _tried:
            continue
        _tried.add(point.name)
        try:
            _register_found(point)
        except Exception as error:  # noqa: BLE001  (whatever its author's code raises)
            _register_broken(point, error)


def _register_found(point):
    offered = point.load()
    if isinstance(offered, type):
        register_backend(point.name, offered)
        return
    offered()
    if point.name not in _native.registered_backends():
        raise make_error("not_found", "anyaccel.backends", f"{point.value} registered no backend named {point.name!r}")


def _register_broken(point, error):
    reason = f"its entry point {point.value} cannot be used: {type(error).__name__}: {printable_text(error, 1000)}"
    if os.environ.get("DS_ACCELERATOR") != point.name:
        warnings.warn(f"anyaccel: the backend {point.name!r} is skipped: {reason}", stacklevel=2)
    if point.name not in _native.registered_backends():
        register_backend(point.name, Backend, device_type=point.name, probe=lambda: (0, reason))


_native.add_backend_finder(load_entry_points)
# Later on C++ asks Python nothing more: what backends are asked then, the ones below answer. Registered early, so it runs late.
atexit.register(_native.python_ends)
