"""The functions that DeepSpeed's CPULionBuilder().load() returns, with the same names and
arguments. `lion_update_list` updates several tensors in one call. See `anyaccel/ops/cpu_lion.h`.
Invalid arguments raise ValueError.
"""

from ._bind import bind

__getattr__ = bind(globals(), "CPULionBuilder", ("create_lion", "lion_update", "lion_update_list", "destroy_lion"))
