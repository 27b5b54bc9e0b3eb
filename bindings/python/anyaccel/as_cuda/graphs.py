"""torch.cuda.CUDAGraph on the accelerator."""

from __future__ import annotations

import typing

from .. import _cuda_names


def graph_class(accelerator: typing.Any) -> type:
    """Make the class that replaces torch.cuda.CUDAGraph."""
    base = _cuda_names.graph_base(accelerator)
    return type("CUDAGraph", (base,), {"__module__": "torch.cuda.graphs", "__doc__": "A graph of the accelerator's work."})
