"""Tests that 100 000 reads and writes of async_io do not leak file descriptors, even if requests
fail.
"""
import os
import subprocess
import sys
import unittest


class Descriptors(unittest.TestCase):
    def test_many_operations(self):
        program = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "bin", "unit_async_io")
        if not os.path.exists(program):
            print("SKIP: unit_async_io is not built")
            sys.exit(77)
        subprocess.run([program, "--gtest_filter=AioFile.DescriptorsAreClosed"], check=True,
                       env=os.environ | {"AIO_TEST_OPERATIONS": "100000"})


if __name__ == "__main__":
    unittest.main()
