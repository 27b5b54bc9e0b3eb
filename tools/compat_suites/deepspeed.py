"""DeepSpeed's unit tests on two simulated devices.

DeepSpeed uses AnyAccel's accelerator `sim` and AnyAccel's ops; its communication backend is
`staged`. The files below are the tests of what DeepSpeed does with an accelerator. Tests of its CUDA
and Triton kernels, of its launcher and of models from a hub are not selected.
"""
from . import session

TITLE = "DeepSpeed's unit tests"
# Marks of the source folder: a file that must exist.
MARK = "unit/common.py"
SECONDS_PER_TEST = 90

FILES = (
    "unit/comm/test_dist.py",
)


def run(source, excluded, python, build, only, timeout):
    """Return the report.Results of FILES in `source`, DeepSpeed's folder `tests`."""
    files = [file for file in FILES if not only or only in (file, file.rsplit("/", 1)[-1])]
    environment = {"DS_ACCELERATOR": "sim", "CUDA_VISIBLE_DEVICES": "0,1", "DS_UNITTEST_TIMEOUT": str(SECONDS_PER_TEST),
                   "DS_DISABLE_REUSE_DIST_ENV": "1"}
    return session.run(source, files, excluded, python, build, timeout, site="site_deepspeed", environment=environment,
                       options=("-p", "compat_deepspeed"))
