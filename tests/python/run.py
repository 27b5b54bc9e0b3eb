"""Runs one file of tests with pytest, for ctest: exit status 77 with a line `SKIP: reason` where there is no pytest."""

import sys

try:
    import pytest
except ImportError:
    print("SKIP: pytest is not installed")
    sys.exit(77)
status = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=/", *sys.argv[1:]])
if status == pytest.ExitCode.NO_TESTS_COLLECTED:
    print("SKIP: no test of this file is for this build; its output says why")
    status = 77
sys.exit(status)
