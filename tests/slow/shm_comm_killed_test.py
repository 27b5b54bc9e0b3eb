"""Tests that ranks killed at 50 random times leave no shared memory behind, and that the other
ranks get an error.
"""
import os
import subprocess
import unittest


class ShmCommKilled(unittest.TestCase):
    # Fails if one of the unit tests *AfterAKill fails with 50 kills instead of the 5 of `make
    # test`.
    def test_fifty_kills(self):
        program = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "bin/unit_shm")
        variables = {name: value for name, value in os.environ.items() if name != "ANYACCEL_SHM_DIR"}
        done = subprocess.run([program, "--gtest_filter=*AfterAKill"], text=True, capture_output=True,
                              env={**variables, "ANYACCEL_SLOW_TESTS": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 tests from 2 test suites ran", done.stdout)


if __name__ == "__main__":
    unittest.main()
