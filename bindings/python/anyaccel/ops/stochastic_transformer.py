"""The op of DeepSpeed's `stochastic_mode`; see transformer.py.

In DeepSpeed, that mode is faster, but its results differ from run to run. On the CPU, reproducible
results do not cost any time, so both modes are the same.
"""

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
