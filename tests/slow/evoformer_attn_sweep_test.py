"""Attention with an Evoformer block's biases and its gradients against plain attention, 400 random shapes, types and masks. Breaks when any differs."""
import unittest

from python_sweep import sweep


class Sweep(unittest.TestCase):
    def test_random_shapes(self):
        sweep("evoformer_attn.py", "evoformer_attn_test.py", EVOFORMER_CASES="400")


if __name__ == "__main__":
    unittest.main()
