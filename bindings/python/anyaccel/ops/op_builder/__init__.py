"""Counterpart of DeepSpeed's package `deepspeed.ops.op_builder`: all op builder classes of this
process's accelerator.

    from anyaccel.ops.op_builder import CPUAdamBuilder

Submodules also have DeepSpeed's names: `from anyaccel.ops.op_builder.async_io import
AsyncIOBuilder`.
"""

import importlib.machinery
import sys
import types

from .builder import CPUOpBuilder, CUDAOpBuilder, OpBuilder

# DeepSpeed's modules and their builders.
_MODULES = {
    "async_io": ("AsyncIOBuilder",),
    "cpu_adagrad": ("CPUAdagradBuilder",),
    "cpu_adam": ("CPUAdamBuilder",),
    "cpu_lion": ("CPULionBuilder",),
    "dc": ("DeepCompileBuilder",),
    "evoformer_attn": ("EvoformerAttnBuilder",),
    "fp_quantizer": ("FPQuantizerBuilder",),
    "fused_adam": ("FusedAdamBuilder",),
    "fused_lamb": ("FusedLambBuilder",),
    "fused_lion": ("FusedLionBuilder",),
    "gds": ("GDSBuilder",),
    "inference_core_ops": ("InferenceCoreBuilder",),
    "inference_cutlass_builder": ("InferenceCutlassBuilder",),
    "pin_memory": ("PinMemoryBuilder",),
    "quantizer": ("QuantizerBuilder",),
    "ragged_ops": ("RaggedOpsBuilder",),
    "ragged_utils": ("RaggedUtilsBuilder",),
    "random_ltd": ("RandomLTDBuilder",),
    "sparse_attn": ("SparseAttnBuilder",),
    "spatial_inference": ("SpatialInferenceBuilder",),
    "stochastic_transformer": ("StochasticTransformerBuilder",),
    "transformer": ("TransformerBuilder",),
    "transformer_inference": ("InferenceBuilder",),
    "utils": ("UtilsBuilder",),
}
_OF_THE_CPU = {
    "async_io": ("AsyncIOBuilder",),
    "builder": ("CPUOpBuilder",),
    "comm": ("CCLCommBuilder", "ShareMemCommBuilder"),
    "cpu_adagrad": ("CPUAdagradBuilder",),
    "cpu_adam": ("CPUAdamBuilder",),
    "cpu_lion": ("CPULionBuilder",),
    "fused_adam": ("FusedAdamBuilder",),
    "no_impl": ("NotImplementedBuilder",),
    "pin_memory": ("PinMemoryBuilder",),
}
_BASES = {"OpBuilder": OpBuilder, "CPUOpBuilder": CPUOpBuilder, "CUDAOpBuilder": CUDAOpBuilder}
__op_builders__ = tuple(dict.fromkeys(name for names in (*_MODULES.values(), *_OF_THE_CPU.values()) for name in names if name not in _BASES))


def _builder_class(name):
    """Return a builder class by name. The class is looked up on each call, because
    set_accelerator() may change it.
    """
    if name in _BASES:
        return _BASES[name]
    from ..._native import get_accelerator
    return get_accelerator().get_op_builder(name)


class _Module(types.ModuleType):
    """A module that provides the current accelerator's builders."""

    def __getattr__(self, name):
        if name not in self.__dict__.get("__all__", ()):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _builder_class(name)


def _add_modules(package, modules):
    for name, builders in modules.items():
        full = f"{package.__name__}.{name}"
        made = _Module(full, f"Counterpart of DeepSpeed's module of the same name: {', '.join(builders)}.")
        made.__spec__ = importlib.machinery.ModuleSpec(full, None)
        made.__package__ = package.__name__
        made.__all__ = builders
        sys.modules[full] = made
        setattr(package, name, made)


def _make_package(name, builders):
    made = _Module(f"{__name__}.{name}", "Counterpart of DeepSpeed's package of the same name.")
    made.__spec__ = importlib.machinery.ModuleSpec(made.__name__, None, is_package=True)
    made.__package__, made.__path__, made.__all__ = made.__name__, [], builders
    sys.modules[made.__name__] = made
    return made


cpu = _make_package("cpu", tuple(name for names in _OF_THE_CPU.values() for name in names))
_add_modules(cpu, _OF_THE_CPU)
_add_modules(sys.modules[__name__], _MODULES)


def __getattr__(name):
    # Other names that end in Builder belong to an extension or to a later DeepSpeed.
    if name.endswith("Builder") and not name.startswith("_"):
        return _builder_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__op_builders__])
