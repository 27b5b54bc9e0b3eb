"""All builders by their names, as DeepSpeed's `all_ops` looks for them."""

from ..adapter import accelerator
from ..builders import NAMES

for _name in NAMES:
    globals()[_name] = accelerator().get_op_builder(_name)
