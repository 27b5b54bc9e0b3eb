"""Counterpart of the DeepSpeed module with the same name: one builder per op, by op name."""

from . import __op_builders__ as _names
from ..._native import get_accelerator

__op_builders__ = [get_accelerator().create_op_builder(name) for name in _names if name != "NotImplementedBuilder"]
ALL_OPS = {builder.name(): builder for builder in __op_builders__}
accelerator_name = get_accelerator().name()
