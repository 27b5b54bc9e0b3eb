"""A small backend written in Python. Each test program runs in its own process, because a process
has one registry.
"""

import os

import child

COMMON = """
import os, sys, threading
import torch
import anyaccel
from anyaccel import Backend, Error, get_accelerator, register_backend, set_accelerator

class Card(Backend):
    def properties(self, index):
        return {"name": f"Card {index}", "total_memory": 1 << 30}
    def memory_info(self, index):
        return 123, 1 << 30
"""


def run(code, status=0, **variables):
    environment = {key: value for key, value in os.environ.items() if key != "DS_ACCELERATOR"}
    done = child.run(COMMON + code, {**environment, **variables}, timeout=600)
    assert done.returncode == status, done.stdout + done.stderr
    return done
