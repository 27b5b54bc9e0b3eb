"""Runs one test file with pytest for ctest. Prints `SKIP: reason` and exits with status 77 if
pytest is missing. Does the same if ANYACCEL_TEST_SKIP_WITHOUT_DEVICE is set and the accelerator
that DS_ACCELERATOR names is unavailable.
"""

import os
import sys


def missing_device():
    """Return the reason why the accelerator is unavailable, or None if it is available."""
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
        print("SKIP: all tests of this file were skipped; see the reasons above")
        return 77
    return status


# Processes spawned by a test import this file again.
if __name__ == "__main__":
    sys.exit(main())
