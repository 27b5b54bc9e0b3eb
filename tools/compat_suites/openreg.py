"""Runs PyTorch's tests for OpenReg, PyTorch's own test device, on the simulated accelerator.

The copy of the tests uses the device `sim` instead of `openreg`. OpenReg's error messages that a
test expects verbatim are replaced by ours.
"""
import os
import pathlib
import re
import subprocess
import tempfile

from . import process, report

TITLE = "PyTorch's OpenReg tests"
# Seconds per test file.
TIMEOUT = 600

NAMES = ((r"\btorch_openreg\b", "anyaccel"), (r"OpenReg", "Sim"), (r"openreg", "sim"), (r"OPENREG", "SIM"), (r"\boccl\b", "staged"),
         (r"\bOCCL\b", "STAGED"))
MESSAGES = (
    ("The device index is out of range", "device index out of range"),
    ("re-initialize OpenReg", "re-initialize SIM"),
    ("To use OpenReg", "To use SIM"),
)


def adapted(text):
    """Return the text of a test file, adapted to the simulated accelerator."""
    for theirs, ours in MESSAGES:
        text = text.replace(theirs, ours)
    for pattern, replacement in NAMES:
        text = re.sub(pattern, replacement, text)
    return text


def run(options, excluded):
    """Run all test files in the source folder and return their report.Results."""
    if not any(options.source.glob("test_*.py")):
        raise report.CannotRun(f"no test_*.py in {options.source}; pass the folder with {TITLE} as --source")
    results = []
    with tempfile.TemporaryDirectory(prefix="compat-") as folder:
        folder = pathlib.Path(folder)
        for path in sorted(options.source.glob("test_*.py")):
            if options.only and path.name != options.only:
                continue
            (folder / path.name).write_text(adapted(path.read_text()))
            results += run_file(folder, path.name, options, excluded)
    return results


def run_file(folder, name, options, excluded):
    if f"{name}::*" in excluded:
        return [report.Result(f"{name}::*::*", "excluded", f"{name}::*")]
    junit = folder / f"{name}.xml"
    deselect = []
    for key in excluded:
        if key.startswith(f"{name}::"):
            deselect += ["--deselect", key.removesuffix("::*")]
    environment = {**os.environ, "PYTHONPATH": str(options.build / "python"), "OMP_NUM_THREADS": "1"}
    # Child processes of the tests also get the simulator.
    command = [options.build / "bin/anyaccel", "sim", "run", *(["--devices", str(options.devices)] if options.devices else []),
               *(["--check", "report"] if options.check else []), "--", options.python, "-m", "pytest", "-q", "--tb=line",
               "-p", "no:cacheprovider", f"--junit-xml={junit}", *deselect, name]
    limit = options.timeout or TIMEOUT
    with report.log_file(options.log, name) as log:
        try:
            process.run(command, limit, cwd=folder, env=environment, stdout=log, stderr=log)
        except subprocess.TimeoutExpired:
            return [report.Result(f"{name}::*::*", "failed", f"no result within {limit} s")]
    if not junit.exists():
        return [report.Result(f"{name}::*::*", "failed", "pytest exited without a report")]
    left_out = [report.Result(key, "excluded", key) for key in excluded if key.startswith(f"{name}::")]
    return report.read_junit(junit, name) + left_out
