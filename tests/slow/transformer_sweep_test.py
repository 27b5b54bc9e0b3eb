"""Compare transformer layers and their gradients with plain layers for 300 random shapes, dtypes,
masks and options.
"""
import unittest

from python_sweep import sweep


class Sweep(unittest.TestCase):
    def test_random_layers(self):
        sweep("transformer.py", "-k", "test_random_shapes", "transformer_test.py", TRANSFORMER_CASES="300")


if __name__ == "__main__":
    unittest.main()
