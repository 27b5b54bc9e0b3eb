"""What functions of a backend in Python give: any object with these methods, derived from nothing. Types for those who check them."""

from typing import Any, Protocol

import torch


class EventPart(Protocol):
    """What new_event() gives."""

    def record(self, stream: torch.Stream) -> None:
        """Marks the end of what the stream holds now."""

    def wait(self, stream: torch.Stream) -> None:
        """Work queued on the stream from now on waits."""

    def query(self) -> bool:
        """True when the marked work is done."""

    def synchronize(self) -> None:
        """Blocks until it is."""

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds to another one of the same class; asked only when both have timing and were recorded."""


class GraphPart(Protocol):
    """What new_graph() gives."""

    def capture_begin(self, pool: Any) -> None:
        """Starts recording this thread's work; `pool`: memory of another graph to share, or None."""

    def capture_end(self) -> None:
        """Ends recording."""

    def replay(self) -> None:
        """Runs the captured work again."""

    def reset(self) -> None:
        """Forgets the work; while capturing it abandons the capture, and must not raise then."""

    def pool(self) -> Any:
        """The pool of this graph, for another capture_begin()."""


class HostAllocator(Protocol):
    """What host_allocator() gives."""

    def allocate(self, num_bytes: int, /) -> "int | None":
        """The address of so many bytes; 0 or None: there is no more."""

    def free(self, address: int, /) -> None:
        """Takes them back; from any thread."""
