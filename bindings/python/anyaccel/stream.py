"""Streams and events, used as torch.cuda's are."""

import torch

from . import _native

Event = _native.Event


class Stream(torch.Stream):
    """A queue of work in order: `Stream(device_index=None, priority=0)`; a lower priority number is more urgent.

    It is a torch.Stream too, so `tensor.record_stream(stream)` takes it. On a synchronous device (cpu) a stream is an
    identity: its work is done when the call returns.
    """

    __slots__ = ("_index", "_scopes")

    def __new__(cls, device_index: "int | None" = None, priority: int = 0) -> "Stream":
        return _native.new_stream(device_index, priority)

    @property
    def device_index(self) -> int:
        """Index of the accelerator's device, also where torch's names carry none."""
        return self._index

    @property
    def id(self) -> int:
        """What tells the streams of a device apart."""
        return self.stream_id

    @property
    def native_handle(self) -> int:
        """The vendor's handle (cudaStream_t, ...) as an integer; `unsupported` where there is none."""
        return _native.stream_native_handle(self)

    def query(self) -> bool:
        """True when all work queued so far is done."""
        return _native.stream_query(self)

    def synchronize(self) -> None:
        """Blocks until the work queued so far is done; `device_error` where that work failed."""
        _native.stream_synchronize(self)

    def wait_event(self, event: "Event | torch.Event") -> None:
        """Work queued here from now on waits for the event."""
        if isinstance(event, Event):
            _native.stream_wait_event(self, event)
        else:
            super().wait_event(event)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Work queued here from now on waits for what the other stream holds now."""
        _native.stream_wait_stream(self, stream)

    def record_event(self, event: "Event | None" = None, enable_timing: bool = False) -> Event:
        """Records an event here, a new one if none is given, and returns it."""
        if event is None:
            return _native.stream_record_event(self, enable_timing)
        if isinstance(event, Event):
            event.record(self)
            return event
        return super().record_event(event)

    def __enter__(self) -> "Stream":
        if not hasattr(self, "_scopes"):
            self._scopes = []
        self._scopes.append(_native.get_accelerator().stream(self).__enter__())
        return self

    def __exit__(self, *exception: object) -> None:
        self._scopes.pop().__exit__(*exception)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, torch.Stream):
            return NotImplemented
        index = other._index if isinstance(other, Stream) else other.device_index
        return (self.stream_id, self.device_type, self._index) == (other.stream_id, other.device_type, index)

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device_type, self._index))

    def __repr__(self) -> str:
        return f"anyaccel.Stream(device={self.device.type!r}, device_index={self._index}, id={self.stream_id})"


_native.set_stream_class(Stream)
