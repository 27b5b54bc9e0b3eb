"""Modules of ops whose functions are the ops themselves."""

import torch

from .. import _native


def bind(module, builder, names):
    """`__getattr__` of such a module: at the first use of a name the builder loads the op, and the module keeps the name.

    What is kept is a quick call of the op where there is one (native/ops.cpp), else the dispatcher's own function."""

    def get(name):
        if name not in names:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        if not hasattr(torch.ops.anyaccel, name):
            from .. import get_accelerator
            get_accelerator().create_op_builder(builder).load()
        module[name] = _native.quick_op(name, getattr(torch.ops.anyaccel, name).default._op)
        return module[name]

    module["__all__"] = names
    return get
