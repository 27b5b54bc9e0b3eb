"""Applies transformers' tests of FSDP to a small Llama model. Each rank has its own CUDA device, which
the simulator replaces.
"""
import unittest

from .test_fsdp_mixin import FSDPTesterMixin
from .test_models_on_device import LLAMA


class LlamaFSDPTest(FSDPTesterMixin, unittest.TestCase):
    model_tester = LLAMA
