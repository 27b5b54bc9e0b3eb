"""Tests that op builds that are killed at 50 random times do not block other builds, do not leave
partial libraries, and do not leave compilers running.
"""
import os
import subprocess
import unittest


class OpBuilderKilled(unittest.TestCase):
    # Fails if the unit test RacesTest.KilledBuilderBlocksNobody fails with 50 kills instead of the
    # 4 of `make test`.
    def test_fifty_kills(self):
        program = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "bin/unit_base")
        done = subprocess.run([program, "--gtest_filter=RacesTest.KilledBuilderBlocksNobody"], text=True, capture_output=True,
                              env={**os.environ, "ANYACCEL_TEST_KILLS": "50"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
