"""A user's own import hook, independent of AnyAccel's. It requests AnyAccel's accelerator right
after DeepSpeed's module is executed. The first argument selects the way: `accelerator` passes the
object to DeepSpeed, `import` only imports anyaccel.deepspeed.
"""

import importlib.abc
import importlib.machinery
import json
import sys

MODULE = "deepspeed.accelerator.real_accelerator"


class Loader(importlib.abc.Loader):

    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        import anyaccel.deepspeed
        if sys.argv[1] == "accelerator":
            module.set_accelerator(anyaccel.deepspeed.accelerator())


class Finder(importlib.abc.MetaPathFinder):

    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        spec.loader = Loader(spec.loader)
        return spec


sys.meta_path.insert(0, Finder())

import deepspeed  # noqa: E402
import torch  # noqa: E402
from deepspeed.ops.op_builder import CPUAdamBuilder  # noqa: E402
from deepspeed.runtime import utils  # noqa: E402

import anyaccel.deepspeed  # noqa: E402

ours = anyaccel.deepspeed.accelerator()
parameter = torch.nn.Parameter(torch.ones(8))
optimizer = deepspeed.ops.adam.DeepSpeedCPUAdam([parameter], lr=0.1)
parameter.grad = torch.ones(8)
optimizer.step()
print("RESULT " + json.dumps({
    "accelerator": deepspeed.get_accelerator() is ours,
    "bound": utils.torch_memory_reserved == ours.memory_reserved,
    "builder": type(CPUAdamBuilder()).__module__,
    "op": optimizer.ds_opt_adam.__name__,
    "changed": bool((parameter < 1).all()),
    "hook": any(type(finder).__module__ == "_anyaccel_deepspeed" for finder in sys.meta_path),
}))
