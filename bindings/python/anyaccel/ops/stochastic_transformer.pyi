from collections.abc import Callable
from typing import Any

from .transformer import DeepSpeedTransformerConfig as DeepSpeedTransformerConfig
from .transformer import DeepSpeedTransformerLayer as DeepSpeedTransformerLayer
from .transformer import TransformerConfig as TransformerConfig
from .transformer import TransformerLayer as TransformerLayer

def __getattr__(name: str) -> Callable[..., Any]: ...
