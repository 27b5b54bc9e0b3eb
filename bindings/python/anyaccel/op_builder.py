"""Op builders: what knows an op's sources and needs, and loads it. Names are DeepSpeed's."""

import torch

from . import _native


class OpBuilder(_native.OpBuilder):
    """Base of the classes that `get_op_builder(name)` gives; `create_op_builder(name)` makes an object of one."""

    NAME = None

    def is_compatible(self, verbose=False):
        """True when load() can work here; `compatibility()` has the reason, and verbose prints it."""
        answer = self.compatibility()
        if verbose and not answer.compatible:
            print(f"anyaccel: {self.name()}: {answer.reason}")
        return answer.compatible

    def load(self, verbose=True):
        """Loads the op, prebuilt or built now, and returns `torch.ops.anyaccel`."""
        super().load()
        return torch.ops.anyaccel


def builder_class(accelerator, class_name):
    """The class for an op of an accelerator. Never None: a missing op's load() is `unsupported`."""

    def __init__(self):
        _native.OpBuilder.__init__(self, accelerator, class_name)

    made = type(class_name, (OpBuilder,), {"__init__": __init__})
    made.NAME = made().name()
    return made
