"""Makes DeepSpeed's import paths, except accelerator paths, work with `anyaccel` in place of
`deepspeed`.

If AnyAccel's counterpart of a name or module has a different name, the path resolves to the
counterpart. Paths without a counterpart raise an error that explains what to do.
docs/reference/deepspeed-paths.md lists all paths.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys

# DeepSpeed engine modules, which AnyAccel does not replace.
ENGINE = ("autotuning", "checkpoint", "compile", "compression", "constants", "datastates", "env_report", "git_version_info", "inference", "io", "launcher",
          "linear", "model_implementations", "module_inject", "moe", "monitor", "nvme", "pipe", "profiling", "runtime", "sequence", "utils", "zero")
ENGINE_NAMES = ("DeepSpeedConfig", "DeepSpeedEngine", "DeepSpeedOptimizer", "InferenceEngine", "OnDevice", "PipelineModule", "add_config_arguments",
                "checkpointing", "default_inference_config", "init_inference", "initialize", "replace_transformer_layer", "tp_model_init")
# Other modules without a counterpart, including their submodules.
OTHERS = ("comm.backend", "comm.ccl", "comm.config", "comm.constants", "comm.mori", "comm.pg_utils", "comm.torch", "ops.adam.multi_tensor_apply",
          "ops.adam.zenflow_cpu_adam", "ops.adam.zenflow_torch_adam", "ops.fp_quantizer.fp8_gemm_triton", "ops.fp_quantizer.quantize",
          "ops.lion.multi_tensor_apply", "ops.op_builder.hpu", "ops.op_builder.klxpu", "ops.op_builder.mlu", "ops.op_builder.mps", "ops.op_builder.npu",
          "ops.op_builder.pin_memory_load", "ops.op_builder.sdaa", "ops.op_builder.supa", "ops.op_builder.xpu", "ops.transformer.inference",
          "ops.triton_ops")
# Modules that have a different name in AnyAccel.
ALIASES = {
    "comm.reduce_op": "comm.comm",
    "comm.utils": "comm.comm",
    "ops.anyaccel4science": "ops.deepspeed4science",  # for programs in which every `deepspeed` was replaced with `anyaccel`
    "ops.deepspeed4science.evoformer_attn": "ops.deepspeed4science",
    "ops.fp_quantizer.fp8_gemm": "ops.fp_quantizer",
    "ops.random_ltd.dropping_utils": "ops.random_ltd",
    "ops.sparse_attention.matmul": "ops.sparse_attention",
    "ops.sparse_attention.softmax": "ops.sparse_attention",
    "ops.transformer.transformer": "ops.transformer",
}
# Top-level names, and the modules that define them.
_ELSEWHERE = {"DeepSpeedTransformerConfig": "ops.transformer", "DeepSpeedTransformerLayer": "ops.transformer", "init_distributed": "comm"}


def attribute(name):
    """Return a lazily loaded attribute of the package `anyaccel`, or raise AttributeError."""
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(f"{__package__}.{_ELSEWHERE[name]}"), name)
    if name in ("comm", "ops"):
        return importlib.import_module(f"{__package__}.{name}")
    if name in ENGINE or name in ENGINE_NAMES:
        raise AttributeError(hint(name))
    raise AttributeError(f"module {__package__!r} has no attribute {name!r}")


def hint(name):
    return (f"anyaccel has no counterpart of deepspeed.{name}; import it from deepspeed, and add `import anyaccel.deepspeed` "
            "before `import deepspeed` so that DeepSpeed uses AnyAccel's accelerator and ops (docs/reference/deepspeed.md)")


class _Loader(importlib.abc.Loader):
    """Loader that creates a module under DeepSpeed's name, with the public names of the AnyAccel
    module `target`.
    """

    def __init__(self, target):
        self._target = target

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        target = importlib.import_module(f"{__package__}.{self._target}")
        module.__dict__.update({name: value for name, value in vars(target).items() if not name.startswith("_")})


class _Finder(importlib.abc.MetaPathFinder):
    """Fallback finder for modules that no other finder finds."""

    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.partition(".")
        if package != __package__:
            return None
        if name in ALIASES:
            return importlib.machinery.ModuleSpec(fullname, _Loader(ALIASES[name]))
        if name.split(".")[0] in ENGINE or name in OTHERS:
            # `from anyaccel import runtime` would swallow a ModuleNotFoundError whose `name` is
            # set.
            raise ModuleNotFoundError(hint(name))
        return None


def install():
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
