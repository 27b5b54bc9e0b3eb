"""All builders by name, for DeepSpeed's `all_ops`."""

from ..adapter import accelerator
from ..builders import NAMES

for _name in NAMES:
    globals()[_name] = accelerator().get_op_builder(_name)
