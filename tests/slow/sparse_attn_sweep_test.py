"""Sparse attention and its gradients against dense attention, 400 random shapes, types and masks. Breaks when any differs."""
import os
import subprocess
import sys
import unittest


class Sweep(unittest.TestCase):
    def test_random_shapes(self):
        build = os.environ["ANYACCEL_BUILD_DIR"]
        package = os.path.join(build, "python")
        if not os.path.exists(os.path.join(package, "anyaccel", "ops", "sparse_attn.py")):
            print("SKIP: the Python package is not built")
            sys.exit(77)
        tests = os.path.join(os.environ["ANYACCEL_SOURCE_DIR"], "tests", "python")
        subprocess.run([os.environ["ANYACCEL_TEST_PYTHON"], "-B", os.path.join(tests, "run.py"),
                        os.path.join(tests, "sparse_attn_test.py")], check=True,
                       env=os.environ | {"PYTHONPATH": package, "DS_ACCELERATOR": "cpu", "SPARSE_ATTN_CASES": "400"})


if __name__ == "__main__":
    unittest.main()
