"""Runs one file of tests with pytest, for ctest: exit status 77 with a line `SKIP: reason` where there is no pytest, or where
ANYACCEL_TEST_SKIP_WITHOUT_DEVICE is set and the accelerator that DS_ACCELERATOR names is not here."""

import os
import sys


def missing_device():
    """Why there is no such accelerator, or nothing."""
    if not os.environ.get("ANYACCEL_TEST_SKIP_WITHOUT_DEVICE"):
        return None
    import anyaccel
    try:
        anyaccel.get_accelerator()
    except anyaccel.Error as error:
        if error.code != "unavailable":
            raise
        return error
    return None


def main():
    try:
        import pytest
    except ImportError:
        print("SKIP: pytest is not installed")
        return 77
    if reason := missing_device():
        print(f"SKIP: {reason}")
        return 77
    status = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=/", *sys.argv[1:]])
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        print("SKIP: no test of this file is for this build; its output says why")
        return 77
    return status


# Processes that a test spawns import this file again.
if __name__ == "__main__":
    sys.exit(main())
