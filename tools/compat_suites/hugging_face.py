"""Tests of Hugging Face libraries that need one or two GPUs, on the simulator in place of CUDA.

The tests run in a copy of the repository's folders, without a network. Models that they load by
name are small checkpoints with random weights; see checkpoints.py.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from . import process, report

# Folder on the PYTHONPATH of the tests, with code that runs in their Python process.
GUEST = pathlib.Path(__file__).resolve().parent / "guest"


class Suite:
    """Tests of a library.

    `files` lists test files relative to the library's folder `tests`. As a dictionary {file:
    tests}, it selects some classes or tests (CLASS or CLASS::TEST) of each file; an empty tuple
    selects all. `models` lists model names on the hub. `folders` lists folders next to `tests` that
    the tests read.
    """

    can_resume = True
    devices = 2
    timeout = 1800  # seconds per test file
    needed = ()  # files that --source must contain; if empty, `files`

    def __init__(self, title, files, models=(), folders=()):
        self.TITLE, self.models, self.folders = title, models, folders
        self.files = files if isinstance(files, dict) else dict.fromkeys(files, ())

    def run(self, options, excluded):
        """Run the test files and return their report.Results."""
        only = options.only
        files = [file for file in self.files if not only or only in (file, pathlib.Path(file).name)]
        missing = [file for file in self.needed or files if not (options.source / file).is_file()]
        if missing:
            raise report.CannotRun(f"{options.source} lacks {', '.join(missing)}; "
                                   f"pass the folder `tests` of {self.TITLE} as --source")
        with tempfile.TemporaryDirectory(prefix="compat-") as folder:
            folder = pathlib.Path(folder)
            for name in ("tests", *self.folders):
                shutil.copytree(options.source.parent / name if name != "tests" else options.source, folder / "copy" / name)
            self.prepare(folder / "copy/tests")
            self._make_checkpoints(folder, options.python)
            results = []
            for file in files:
                found = report.saved(options.resume, file)
                if found is None:
                    found = self._run_file(folder, file, options, excluded)
                    report.save(options.resume, file, found)
                results += found
            return results

    def prepare(self, tests):
        """Adapt the copy of the tests in the folder `tests`."""

    def _make_checkpoints(self, folder, python):
        if self.models:
            done = subprocess.run([python, GUEST / "checkpoints.py", folder / "home/hub", *self.models], capture_output=True,
                                  text=True)
            if done.returncode != 0:
                message = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise report.CannotRun(f"cannot create the checkpoints: {message}")

    def _run_file(self, folder, file, options, excluded):
        junit, left_out, asked = folder / "junit.xml", folder / "excluded.json", folder / "exclusions.json"
        for path in (junit, left_out):
            path.unlink(missing_ok=True)
        asked.write_text(json.dumps({"excluded": [key for key in excluded if key.startswith(f"{file}::")],
                                     "report": str(left_out)}))
        folder_of_python = os.path.dirname(options.python)  # has the programs that tests start, for example torchrun
        environment = {**os.environ, "HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
                       "OMP_NUM_THREADS": "1", "PATH": f"{folder_of_python}:{os.environ.get('PATH', '')}",
                       "COMPAT_EXCLUSIONS": str(asked),
                       "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{options.build / 'python'}:{GUEST}"}
        command = [options.build / "bin/anyaccel", "sim", "run", "--devices", str(options.devices or self.devices),
                   "--stands-in-for", "cuda", *(["--check", "report"] if options.check else []), "--",
                   options.python, "-m", "pytest", "-q", "--tb=short", "-rs", "-p", "no:cacheprovider", "-p", "pytest_exclusions",
                   f"--junit-xml={junit}",
                   *([f"tests/{file}::{name}" for name in self.files[file]] or [f"tests/{file}"])]
        limit = options.timeout or self.timeout
        with report.log_file(options.log, file) as log:
            try:
                process.run(command, limit, cwd=folder / "copy", env=environment, stdout=log, stderr=log)
            except subprocess.TimeoutExpired:
                return [report.Result(f"{file}::*::*", "failed", f"no result within {limit} s")]
        nodes = json.loads(left_out.read_text()) if left_out.exists() else []
        found = [report.Result(node.removeprefix("tests/"), "excluded", name) for node, name in nodes]
        if not junit.exists():
            return [report.Result(f"{file}::*::*", "failed", "pytest exited without a report")]
        return report.read_junit(junit, file) + found
