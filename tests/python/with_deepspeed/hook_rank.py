"""Rank program that any launcher can start. It reports two values to the test: the module of
DeepSpeed's accelerator, and a sum over all ranks that deepspeed.comm computes.
"""

import os
import sys

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator

import ranks

assert "anyaccel" in sys.modules, "no hook ran"
deepspeed.init_distributed(get_accelerator().communication_backend_name())
total = torch.ones(1, device=get_accelerator().current_device_name()) * (ranks.rank() + 1)
deepspeed.comm.all_reduce(total)
ranks.hand_over([type(get_accelerator()).__module__, total.item(), os.environ["LOCAL_RANK"]])
