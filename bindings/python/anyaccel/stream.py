"""Streams and events, with the same interface as in torch.cuda."""

import torch

from . import _native

Event = _native.Event


class Stream(torch.Stream):
    """An ordered queue of work: `Stream(device_index=None, priority=0)`.

    Lower priority numbers are more urgent. As in torch.cuda, `device` selects the device, too: an
    index, a name or a torch.device.

    The class derives from torch.Stream, so `tensor.record_stream(stream)` accepts its objects. On a
    synchronous device (cpu), work has completed when the call returns, so streams have no effect on
    its order.
    """

    __slots__ = ("_index", "_scopes")

    def __new__(cls, device_index: "int | None" = None, priority: int = 0, *,
                device: "int | str | torch.device | None" = None) -> "Stream":
        if device is not None:
            if device_index is not None:
                raise TypeError("Stream: pass either device_index or device, not both")
            if not isinstance(device, int):
                device = torch.device(device)
                expected = _native.get_accelerator().device_type()
                if device.type != expected:
                    raise ValueError(f"Stream: wrong device type; got {str(device)!r}, want {expected!r}")
                device = device.index
            device_index = device
        return _native.new_stream(device_index, priority)

    @property
    def device_index(self) -> int:
        """Index of the accelerator's device, even if torch's device names have no index."""
        return self._index

    @property
    def id(self) -> int:
        """Number that identifies the stream among the device's streams."""
        return self.stream_id

    @property
    def native_handle(self) -> int:
        """The vendor's handle (cudaStream_t, ...) as an integer.

        Raises `unsupported` if the vendor has no such handle.
        """
        return _native.stream_native_handle(self)

    def query(self) -> bool:
        """Return whether all work queued so far has completed."""
        return _native.stream_query(self)

    def synchronize(self) -> None:
        """Block until the work queued so far has completed. Raise `device_error` if it failed."""
        _native.stream_synchronize(self)

    def wait_event(self, event: "Event | torch.Event") -> None:
        """Make later work on this stream wait for the event."""
        if isinstance(event, Event):
            _native.stream_wait_event(self, event)
        else:
            super().wait_event(event)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Make later work on this stream wait for the work queued so far on another stream."""
        _native.stream_wait_stream(self, stream)

    def record_event(self, event: "Event | None" = None, enable_timing: bool = False) -> Event:
        """Record an event (default: a new one) on this stream and return it."""
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
