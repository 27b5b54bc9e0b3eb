"""Compare Evoformer attention with biases, and its gradients, with plain attention for 400 random
shapes, dtypes and masks.
"""
import unittest

from python_sweep import sweep


class Sweep(unittest.TestCase):
    def test_random_shapes(self):
        sweep("evoformer_attn.py", "evoformer_attn_test.py", EVOFORMER_CASES="400")


if __name__ == "__main__":
    unittest.main()
