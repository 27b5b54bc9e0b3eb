"""The functions that DeepSpeed's CPUAdamBuilder().load() returns, with the same names and
arguments. `adam_update_list` and `adam_rollback_list` process several tensors in one call. See
`anyaccel/ops/cpu_adam.h`. Invalid arguments raise ValueError.
"""

from ._bind import bind

__getattr__ = bind(globals(), "CPUAdamBuilder", (
    "create_adam", "adam_update", "adam_update_list", "adam_rollback", "adam_rollback_list", "destroy_adam", "zenflow_adam_create",
    "zenflow_adam_register_group", "zenflow_adam_destroy", "zenflow_adam_ctrl_size", "zenflow_adam_ctrl_init",
    "zenflow_adam_run_worker", "zenflow_adam_submit", "zenflow_adam_wait", "zenflow_adam_ctrl_exit"))
