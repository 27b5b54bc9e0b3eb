# The extension module: what the package gives on, and what its Python files complete.
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
    """Bytes of a device: (free, total)."""

    @property
    def free(self) -> int: ...
    @property
    def total(self) -> int: ...

class MemoryStat(_Record):
    """A number and its peak since the last reset."""

    @property
    def current(self) -> int: ...
    @property
    def peak(self) -> int: ...

class MemoryStats(_Record):
    """Counters of one device's allocator."""

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
    """What is known of pinned host memory, in bytes."""

    @property
    def allocated_bytes(self) -> MemoryStat: ...
    @property
    def reserved_bytes(self) -> MemoryStat: ...
    @property
    def num_host_alloc(self) -> int: ...
    @property
    def num_host_free(self) -> int: ...

class DeviceProperties(_Record):
    """What is known of one device. Unknown numbers are -1, unknown texts are empty."""

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
    """What one device does with one data type."""

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
    """(compatible, reason): the reason is empty when compatible."""

    @property
    def compatible(self) -> bool: ...
    @property
    def reason(self) -> str: ...

class BackendVerdict(_Record):
    """What detection found out about one backend."""

    @property
    def name(self) -> str: ...
    @property
    def available(self) -> bool: ...
    @property
    def device_count(self) -> int: ...
    @property
    def reason(self) -> str: ...

class Detection(_Record):
    """Which accelerator this process uses and how that came about."""

    @property
    def accelerator(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def backends(self) -> list[BackendVerdict]: ...

class Scope:
    """What a `with` block enters; entered again while entered, it nests."""

    def __enter__(self) -> Scope: ...
    def __exit__(self, *exception: object) -> None: ...

class Event:
    """A mark in a stream that can be waited for and timed. Before record() it counts as done."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 device_index: int | None = None) -> None: ...
    def record(self, stream: torch.Stream | None = None) -> None:
        """Marks the end of what the stream (or the current one) holds now."""
    def wait(self, stream: torch.Stream | None = None) -> None:
        """Work queued on the stream from now on waits for this event."""
    def query(self) -> bool:
        """True when the marked work is done."""
    def synchronize(self) -> None:
        """Blocks until the marked work is done."""
    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds to another event. Both need timing, must be recorded and done."""

GraphPool = Any

class Graph:
    """A sequence of device work, captured once and replayed."""

    def __init__(self) -> None: ...
    @property
    def state(self) -> str:
        """"empty", "capturing" or "captured"."""
    def capture_begin(self, pool: GraphPool | None = None) -> None:
        """Starts recording this thread's work."""
    def capture_end(self) -> None:
        """Ends recording."""
    def replay(self) -> None:
        """Runs the captured work again."""
    def reset(self) -> None:
        """Forgets the work and gives back its memory."""
    def pool(self) -> GraphPool:
        """The pool of this graph, for another capture_begin()."""

class Random:
    """The functions of torch.random: host and all devices at once."""

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
    """The accelerator of this process; chosen at the first call, as DS_ACCELERATOR says or by probing."""

def registered_backends() -> list[str]:
    """Names of all backends in the order of probing."""

def detect() -> Detection:
    """Probes all backends and says which would be chosen, without choosing it."""

def detection() -> Detection:
    """What get_accelerator() went by; probes when nothing was chosen yet."""

def communication_backend_reason() -> str:
    """Why get_accelerator().communication_backend_name() is what it is; empty where there is nothing to choose."""

def is_current_accelerator_supported() -> bool:
    """True when the chosen accelerator came from AnyAccel's own registry."""

def __getattr__(name: str) -> Any: ...
