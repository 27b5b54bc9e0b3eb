"""Stock DeepSpeed for comparison."""

import sys


def build_no_shared_memory():
    """To be called after `import deepspeed`: its op of shared memory, which the tests' trainings do not need, would be compiled for a minute."""
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
