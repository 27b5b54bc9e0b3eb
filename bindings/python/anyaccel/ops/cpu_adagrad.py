"""What DeepSpeed's CPUAdagradBuilder().load() has, under the same names and with the same arguments, and `adagrad_update_list`
for several tensors in one call. `anyaccel/ops/cpu_adagrad.h` says what they do; a wrong argument is a ValueError."""

from ._bind import bind

__getattr__ = bind(globals(), "CPUAdagradBuilder", ("create_adagrad", "adagrad_update", "adagrad_update_list", "destroy_adagrad"))
