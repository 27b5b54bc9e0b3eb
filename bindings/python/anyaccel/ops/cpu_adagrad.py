"""The functions that DeepSpeed's CPUAdagradBuilder().load() returns, with the same names and
arguments. `adagrad_update_list` updates several tensors in one call. See
`anyaccel/ops/cpu_adagrad.h`. Invalid arguments raise ValueError.
"""

from ._bind import bind

__getattr__ = bind(globals(), "CPUAdagradBuilder", ("create_adagrad", "adagrad_update", "adagrad_update_list", "destroy_adagrad"))
