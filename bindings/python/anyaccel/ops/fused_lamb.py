"""What DeepSpeed's FusedLambBuilder().load() has: `lamb`, which its FusedLamb calls."""

from ._bind import bind

__getattr__ = bind(globals(), "FusedLambBuilder", ("lamb",))
