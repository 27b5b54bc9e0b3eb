"""Helper that runs tests of tests/python with more cases than `make test` does."""
import os
import subprocess
import sys


def sweep(module, *arguments, **variables):
    """Run pytest with `arguments`: options, followed by a file of tests/python. Skip if the built
    package lacks anyaccel/ops/`module`.
    """
    package = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "python")
    if not os.path.exists(os.path.join(package, "anyaccel", "ops", module)):
        print("SKIP: the Python package is not built")
        sys.exit(77)
    tests = os.path.join(os.environ["ANYACCEL_SOURCE_DIR"], "tests", "python")
    *options, file = arguments
    subprocess.run([os.environ["ANYACCEL_TEST_PYTHON"], "-B", os.path.join(tests, "run.py"), *options, os.path.join(tests, file)],
                   check=True, env=os.environ | {"PYTHONPATH": package, "DS_ACCELERATOR": "cpu"} | variables)
