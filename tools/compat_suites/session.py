"""Runs the pytest sessions of a suite, one per test file, and returns their results."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from . import process, report

HERE = pathlib.Path(__file__).resolve().parent
LONGEST_REASON = 200
SECONDS_PER_FILE = 600
# Exit statuses of a session that ran all its tests: all passed, some failed, and none selected.
COMPLETE = (0, 1, 5)


def selected(files, only):
    """Return the files whose path or name is `only`, or all files if `only` is None."""
    return [file for file in files if not only or only in (file, file.rsplit("/", 1)[-1])]


def in_place_of_cuda(options):
    """Return the command-line prefix that runs a program with the simulator in place of CUDA."""
    return (str(options.build / "bin/anyaccel"), "sim", "run", "--stands-in-for", "cuda", "--")


def run(options, files, excluded, **arguments):
    """Run each test file in its own session and return the report.Results of all files. Files whose
    results options.resume contains are skipped. For the other arguments, see run_file().
    """
    results = []
    for file in files:
        found = report.saved(options.resume, file)
        if found is None:
            found = run_file(options, file, excluded, **arguments)
            report.save(options.resume, file, found)
        results += found
    return results


def run_file(options, file, excluded, *, mark, site=None, environment=(), arguments=(), prefix=(), adapt=None, above=False):
    """Run a test file in a copy of the source folder and return its report.Results. The source
    folder must contain a file that matches `mark`.

    `site` names the folder with modules for the processes of the session, `prefix` precedes the
    command, and `adapt` is called with the copy. With `above`, pytest runs in the parent folder of
    the copy, and `file` is relative to that folder.
    """
    source, python, timeout = options.source, options.python, options.timeout or SECONDS_PER_FILE
    if not any(source.glob(mark)):
        raise report.CannotRun(f"no {mark} in {source}; pass the folder with the tests as --source")
    with tempfile.TemporaryDirectory(prefix="compat-") as folder:
        folder = pathlib.Path(folder)
        tests, modules, records = folder / source.name, folder / "site", folder / "results.jsonl"
        shutil.copytree(source, tests)
        if site:
            shutil.copytree(HERE / site, modules)
        modules.mkdir(exist_ok=True)
        if adapt:
            adapt(tests)
        shutil.copy(HERE / "recorder.py", modules / "compat_recorder.py")
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TMPDIR": str(folder), **dict(environment),
                     "PYTHONPATH": os.pathsep.join([str(modules), str(options.build / "python")]),
                     "PYTHONDONTWRITEBYTECODE": "1",
                     **({"SIM_DEVICES": str(options.devices)} if options.devices else {}),
                     **({"SIM_CHECK": "report"} if options.check else {}),
                     "COMPAT_RESULTS": str(records), "COMPAT_EXCLUDED": json.dumps(list(excluded))}
        command = [*prefix, python, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "compat_recorder",
                   *arguments, file]
        try:
            done = process.run(command, timeout, cwd=folder if above else tests, env=variables, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
            output = done.stdout
            end = None if done.returncode in COMPLETE else f"pytest exited with status {done.returncode}"
        except subprocess.TimeoutExpired as error:
            end, output = f"no result within {timeout} s", (error.stdout or b"").decode(errors="replace")
        if options.log:
            options.log.mkdir(parents=True, exist_ok=True)
            (options.log / f"{file.replace('/', '_')}.log").write_text(output)
        if not records.exists() and end is not None:
            print(f"compat: pytest recorded no result:\n{output[-2000:]}", file=sys.stderr)
        return results_of(records, file, end)


def results_of(records, file, end):
    """Return the Results in the recorder's file. The last state of a test counts, unless an earlier
    one is a failure. `end` says why the session is incomplete, or is None.
    """
    found = {}
    for line in records.read_text().splitlines() if records.exists() else ():
        name, state, reason = json.loads(line)
        if name not in found or found[name].state != "failed":
            found[name] = report.Result(name, state, reason if state == "excluded" else reason[:LONGEST_REASON])
    results = list(found.values())
    # A file that cannot be imported has such a result already.
    if end is not None and f"{file}::*" not in found:
        results.append(report.Result(f"{file}::*", "failed", end))
    return results
