"""Protocols for type checkers. They describe the objects that a Python backend returns.

No base class is required.
"""

from typing import Any, Protocol

import torch


class EventPart(Protocol):
    """Result of new_event()."""

    def record(self, stream: torch.Stream) -> None:
        """Record the work queued so far on the stream."""

    def wait(self, stream: torch.Stream) -> None:
        """Make later work on the stream wait for this event."""

    def query(self) -> bool:
        """Return whether the recorded work has completed."""

    def synchronize(self) -> None:
        """Block until the recorded work has completed."""

    def elapsed_time(self, end: Any) -> float:
        """Return the time to another event of the same class in milliseconds.

        Called only if both events have timing enabled and were recorded.
        """


class GraphPart(Protocol):
    """Result of new_graph()."""

    def capture_begin(self, pool: Any) -> None:
        """Start capturing this thread's work.

        `pool` is the memory pool of another graph to share, or None.
        """

    def capture_end(self) -> None:
        """End the capture."""

    def replay(self) -> None:
        """Run the captured work again."""

    def reset(self) -> None:
        """Discard the captured work. If a capture is in progress, abandon it without raising an
        exception.
        """

    def pool(self) -> Any:
        """Return this graph's memory pool, which another graph's capture_begin() accepts."""


class HostAllocator(Protocol):
    """Result of host_allocator()."""

    def allocate(self, num_bytes: int, /) -> "int | None":
        """Return the address of `num_bytes` bytes, or 0 or None if out of memory."""

    def free(self, address: int, /) -> None:
        """Free an allocation. May be called from any thread."""
