"""Builders of ops that are killed at 50 random moments block nobody, leave no half library, and their compilers end with them."""
import os
import subprocess
import unittest


class OpBuilderKilled(unittest.TestCase):
    # Breaks as RacesTest.KilledBuilderBlocksNobody does, whose sweep this is: `make test` makes 4 kills.
    def test_fifty_kills(self):
        program = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "bin/unit_base")
        done = subprocess.run([program, "--gtest_filter=RacesTest.KilledBuilderBlocksNobody"], text=True, capture_output=True,
                              env={**os.environ, "ANYACCEL_TEST_KILLS": "50"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
