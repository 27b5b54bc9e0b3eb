"""What DeepSpeed's CPULionBuilder().load() has, under the same names and with the same arguments, and `lion_update_list`
for several tensors in one call. `anyaccel/ops/cpu_lion.h` says what they do; a wrong argument is a ValueError."""

from ._bind import bind

__getattr__ = bind(globals(), "CPULionBuilder", ("create_lion", "lion_update", "lion_update_list", "destroy_lion"))
