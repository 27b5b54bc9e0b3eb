"""Transformer layers and their gradients against the plain layer, 300 random shapes, types, masks and options. Breaks when any
differs."""
import os
import subprocess
import sys
import unittest


class Sweep(unittest.TestCase):
    def test_random_layers(self):
        build = os.environ["ANYACCEL_BUILD_DIR"]
        package = os.path.join(build, "python")
        if not os.path.exists(os.path.join(package, "anyaccel", "ops", "transformer.py")):
            print("SKIP: the Python package is not built")
            sys.exit(77)
        tests = os.path.join(os.environ["ANYACCEL_SOURCE_DIR"], "tests", "python")
        subprocess.run([os.environ["ANYACCEL_TEST_PYTHON"], "-B", os.path.join(tests, "run.py"), "-k", "test_random_shapes",
                        os.path.join(tests, "transformer_test.py")], check=True,
                       env=os.environ | {"PYTHONPATH": package, "DS_ACCELERATOR": "cpu", "TRANSFORMER_CASES": "300"})


if __name__ == "__main__":
    unittest.main()
