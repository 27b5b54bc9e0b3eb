"""The op of DeepSpeed's `stochastic_mode`: see transformer.py. That mode lets results differ from run to run in return for speed;
the processor's kernels give nothing up for equal results, so they are the same here."""

from . import transformer
from ._transformer_functions import Functions
from .transformer import DeepSpeedTransformerConfig, DeepSpeedTransformerLayer  # noqa: F401
from .transformer import TransformerConfig, TransformerLayer  # noqa: F401

_functions = Functions(lambda name: transformer._find(name, stochastic=True))


def __getattr__(name):
    function = _functions.of(name)
    if function is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return function
