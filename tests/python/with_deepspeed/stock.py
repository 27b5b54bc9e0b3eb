"""Functions for stock DeepSpeed, the reference in the tests."""

import sys


def build_no_shared_memory():
    """Disable the shared-memory op, which the tests do not need and which takes a minute to
    compile. Call this after `import deepspeed`.
    """
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
