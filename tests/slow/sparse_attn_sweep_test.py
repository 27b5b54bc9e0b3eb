"""Compare sparse attention and its gradients with dense attention for 400 random shapes, dtypes and
masks.
"""
import unittest

from python_sweep import sweep


class Sweep(unittest.TestCase):
    def test_random_shapes(self):
        sweep("sparse_attn.py", "sparse_attn_test.py", SPARSE_ATTN_CASES="400")


if __name__ == "__main__":
    unittest.main()
