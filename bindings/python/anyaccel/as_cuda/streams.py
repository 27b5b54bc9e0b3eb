"""torch.cuda.Stream on the accelerator."""

from __future__ import annotations

import typing

from .. import stream
from .devices import Devices


def stream_class(accelerator: typing.Any, devices: Devices) -> type:
    """Make the class that replaces torch.cuda.Stream. The accelerator's streams are its instances."""

    class StreamType(type):

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, stream.Stream) or super().__instancecheck__(instance)

        def __call__(cls, device: object = None, priority: int = 0, **options: typing.Any) -> stream.Stream:
            index = options.get("device_index", devices.index(device))
            return accelerator.Stream(index, priority)

    return StreamType("Stream", (stream.Stream,), {"__module__": "torch.cuda.streams", "__slots__": ()})
