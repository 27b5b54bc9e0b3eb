"""Gives op modules access to their ops, which their builders load on first use."""

import functools

import torch

from .. import _native


class Ops:
    """Access to torch.ops.anyaccel that loads a builder's ops on first use."""

    def __init__(self, builder):
        self._builder = builder

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if not hasattr(torch.ops.anyaccel, name):
            from .._native import get_accelerator
            get_accelerator().create_op_builder(self._builder).load()
        op = getattr(torch.ops.anyaccel, name)
        setattr(self, name, op)
        return op


def _returning_zero(call):

    @functools.wraps(call, assigned=("__name__", "__doc__"))
    def zero(*args, **kwargs):
        call(*args, **kwargs)
        return 0

    return zero


def bind(module, builder, names):
    """Return `__getattr__` for a module whose functions are the ops themselves.

    The first use of a name loads the op and binds the name to a function: the op's fast call
    (native/ops.cpp) if it has one, otherwise torch's dispatcher. As in DeepSpeed, functions that
    create, change and destroy an optimizer return 0.
    """

    def get(name):
        if name not in names:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        if not hasattr(torch.ops.anyaccel, name):
            from .._native import get_accelerator
            get_accelerator().create_op_builder(builder).load()
        made = _native.quick_op(name, getattr(torch.ops.anyaccel, name).default._op)
        module[name] = made if name.startswith("zenflow_") else _returning_zero(made)
        return module[name]

    module["__all__"] = names
    return get
