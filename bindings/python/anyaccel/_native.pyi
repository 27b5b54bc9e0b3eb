# The extension module: names that the package re-exports, and classes that its Python files extend.
from collections.abc import Iterator
from typing import Any

import torch

from .accelerator.accelerator import Accelerator
from .errors import Error as Error

__version__: str

class _Record:
    def __iter__(self) -> Iterator[Any]: ...
    def _repr_html_(self) -> str: ...

class MemoryInfo(_Record):
    """Free and total device memory in bytes: (free, total)."""

    @property
    def free(self) -> int: ...
    @property
    def total(self) -> int: ...

class MemoryStat(_Record):
    """A value and its peak since the last reset."""

    @property
    def current(self) -> int: ...
    @property
    def peak(self) -> int: ...

class MemoryStats(_Record):
    """Allocator counters for one device."""

    @property
    def allocated_bytes(self) -> MemoryStat: ...
    @property
    def reserved_bytes(self) -> MemoryStat: ...
    @property
    def allocation_count(self) -> MemoryStat: ...
    @property
    def num_alloc_retries(self) -> int: ...
    @property
    def num_ooms(self) -> int: ...

class HostMemoryStats(_Record):
    """Statistics of pinned host memory."""

    @property
    def allocated_bytes(self) -> MemoryStat: ...
    @property
    def reserved_bytes(self) -> MemoryStat: ...
    @property
    def num_host_alloc(self) -> int: ...
    @property
    def num_host_free(self) -> int: ...

class DeviceProperties(_Record):
    """Properties of one device. An unknown number is -1; an unknown string is empty."""

    @property
    def name(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def uuid(self) -> str: ...
    @property
    def driver_version(self) -> str: ...
    @property
    def total_memory(self) -> int: ...
    @property
    def multi_processor_count(self) -> int: ...
    @property
    def numa_node(self) -> int: ...
    @property
    def compute_capability(self) -> tuple[int, int] | None: ...
    @property
    def triton(self) -> bool: ...
    @property
    def prefers_triton_grouped_mm(self) -> bool: ...

class DtypeSupport(_Record):
    """A device's support for one dtype."""

    @property
    def storable(self) -> bool: ...
    @property
    def computable(self) -> bool: ...
    @property
    def fast(self) -> bool: ...
    @property
    def reducible(self) -> bool: ...

class DtypeRow(_Record):
    """One row of dtype_table(): (dtype, support)."""

    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def support(self) -> DtypeSupport: ...

class Compatibility(_Record):
    """(compatible, reason). The reason is empty if compatible."""

    @property
    def compatible(self) -> bool: ...
    @property
    def reason(self) -> str: ...

class BackendVerdict(_Record):
    """Detection result for one backend."""

    @property
    def name(self) -> str: ...
    @property
    def available(self) -> bool: ...
    @property
    def device_count(self) -> int: ...
    @property
    def reason(self) -> str: ...

class Detection(_Record):
    """The accelerator that this process uses, and the reason."""

    @property
    def accelerator(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def backends(self) -> list[BackendVerdict]: ...

class Scope:
    """A reentrant context manager."""

    def __enter__(self) -> Scope: ...
    def __exit__(self, *exception: object) -> None: ...

class Event:
    """A marker in a stream. Other streams and the host can wait for it, and measure time with it.

    An event that was never recorded counts as completed.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 device_index: int | None = None) -> None: ...
    def record(self, stream: torch.Stream | None = None) -> None:
        """Record the work queued so far on the stream (default: the current one)."""
    def wait(self, stream: torch.Stream | None = None) -> None:
        """Make later work on the stream (default: the current one) wait for this event."""
    def query(self) -> bool:
        """Return whether the recorded work has completed."""
    def synchronize(self) -> None:
        """Block until the recorded work has completed."""
    def elapsed_time(self, end_event: Event) -> float:
        """Return the time to another event in milliseconds.

        Both events must have timing enabled, and must have been recorded and completed.
        """

GraphPool = Any

class Graph:
    """A sequence of device work, captured once and replayed."""

    def __init__(self) -> None: ...
    @property
    def state(self) -> str:
        """"empty", "capturing" or "captured"."""
    def capture_begin(self, pool: GraphPool | None = None) -> None:
        """Start capturing this thread's work."""
    def capture_end(self) -> None:
        """End the capture."""
    def replay(self) -> None:
        """Run the captured work again."""
    def reset(self) -> None:
        """Discard the captured work and release its memory."""
    def pool(self) -> GraphPool:
        """Return this graph's memory pool, which another graph's capture_begin() accepts."""

class Random:
    """The functions of torch.random, applied to the host and all devices at once."""

    def manual_seed(self, seed: int) -> None: ...
    def seed(self) -> int: ...
    def initial_seed(self) -> int: ...
    def get_rng_state(self) -> torch.Tensor: ...
    def set_rng_state(self, new_state: torch.Tensor) -> None: ...
    def fork_rng(self) -> Scope: ...

class OpBuilder:
    def __init__(self, accelerator: Accelerator, class_name: str) -> None: ...
    def class_name(self) -> str: ...
    def name(self) -> str: ...
    def compatibility(self) -> Compatibility: ...
    def load(self) -> Any: ...
    def sources(self) -> list[str]: ...
    def include_paths(self) -> list[str]: ...

def get_accelerator() -> Accelerator:
    """Return the accelerator of this process.

    The first call selects the accelerator that DS_ACCELERATOR names, or probes the backends.
    """

def registered_backends() -> list[str]:
    """Return the names of all backends, in probing order."""

def detect() -> Detection:
    """Probe all backends and return which one would be selected, without selecting it."""

def detection() -> Detection:
    """Return the reason why get_accelerator() selected its backend. Probes if none is selected yet.
    """

def communication_backend_reason() -> str:
    """Return the reason for the result of get_accelerator().communication_backend_name(), or "" if
    the accelerator has only one communication backend.
    """

def is_current_accelerator_supported() -> bool:
    """Return whether the selected accelerator is from AnyAccel's registry."""

def __getattr__(name: str) -> Any: ...
