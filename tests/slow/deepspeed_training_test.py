"""Tests of DeepSpeed with AnyAccel on cpu and sim: compare the training runs of
tests/python/with_deepspeed/train.py with stock DeepSpeed, and compare AutoTP with the unsharded
model for all kinds of models. Skipped without DeepSpeed (tools/setup --deepspeed).
"""
import os
import subprocess
import sys
import unittest

from python_sweep import sweep


class Sweep(unittest.TestCase):
    def test_all_trainings(self):
        sweep("transformer.py", os.path.join("with_deepspeed", "training_test.py"), ANYACCEL_TEST_ALL_TRAININGS="1", ANYACCEL_TEST_ACCELERATORS="cpu,sim")

    def test_autotp_of_all_models(self):
        sweep("transformer.py", os.path.join("with_deepspeed", "autotp_test.py"), ANYACCEL_TEST_ALL_MODELS="1", ANYACCEL_TEST_ACCELERATORS="cpu,sim")


if __name__ == "__main__":
    if subprocess.run([os.environ["ANYACCEL_TEST_PYTHON"], "-c", "import deepspeed.launcher.runner"], capture_output=True).returncode:
        print("SKIP: the tests' Python has no DeepSpeed (tools/setup --deepspeed)")
        sys.exit(77)
    unittest.main()
