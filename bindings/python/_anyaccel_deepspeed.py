"""Import hook that makes DeepSpeed use AnyAccel's accelerator.

Until DeepSpeed is imported, this module imports nothing outside the standard library, not even
torch.

anyaccel_deepspeed.pth imports this module at the start of every Python process in which
ANYACCEL_DEEPSPEED is neither empty nor 0. `import anyaccel.deepspeed` does the same for the current
process only.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys

MODULE = "deepspeed.accelerator.real_accelerator"
# Functions to call right after a DeepSpeed module has been executed: {DeepSpeed module: (module in
# anyaccel.deepspeed, function)}.
_AFTER = {
    MODULE: ("adapter", "give"),
    "deepspeed.comm.ccl": ("comm", "mend"),
    "deepspeed.model_implementations.transformers.ds_transformer": ("injection", "mend"),
    "deepspeed.module_inject.containers.base": ("injection", "mend_containers"),
}
# Like _AFTER, but for all modules whose names begin with the key.
_AFTER_BELOW = {"deepspeed.inference.v2.": ("inference_v2", "mend")}


def _after(name):
    return _AFTER.get(name) or next((call for package, call in _AFTER_BELOW.items() if name.startswith(package)), None)


def _call(name, module):
    ours, call = _after(name)
    getattr(importlib.import_module("anyaccel.deepspeed." + ours), call)(module)


class _Loader(importlib.abc.Loader):
    """Loader that runs a module's original loader and then our function, before any part of
    DeepSpeed can get an accelerator.
    """

    def __init__(self, loader, name):
        self._loader = loader
        self._name = name

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        _call(self._name, module)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):

    def find_spec(self, fullname, path=None, target=None):
        if _after(fullname) is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, fullname)
        return spec


def installed():
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def catch_up():
    """Call our functions for modules that were executed before the hook was installed."""
    for name, module in list(sys.modules.items()):
        # A user's import hook can call this during MODULE's import, so MODULE may still be marked
        # as initializing.
        if _after(name) is not None and (name == MODULE or not getattr(getattr(module, "__spec__", None), "_initializing", False)):
            _call(name, module)


def install():
    """Install the hook, once per process. Forked children inherit it."""
    if not installed():
        sys.meta_path.insert(0, _Finder())
