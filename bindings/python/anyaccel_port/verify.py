"""`--verify`: runs a program before and after the fixes, in copies of its folder, and compares the
results.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import compare, files, pool
from .analysis import Request, fixes_for
from .errors import PortError
from .escaped import one_line, printable_text, quoted_text
from .options import Options
from .report import Report, number

_SHOWN = 20  # differences and problems that the text report lists
_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
_LINKED = frozenset((".venv", "venv", "node_modules"))  # linked instead of copied, because environments cannot be moved


@dataclasses.dataclass
class Run:
    """A run of the program. code: its exit code, None if it exceeded the time limit."""

    code: int | None
    seconds: float
    stdout: str
    stderr: str
    problems: list[dict] = dataclasses.field(default_factory=list)


def _program() -> str:
    found = os.environ.get("ANYACCEL_PORT_PROGRAM") or shutil.which("anyaccel")
    if not found:
        raise PortError("--verify requires the command anyaccel, which is not in PATH. Install AnyAccel.")
    return found


def _copy(source: str, target: str) -> None:

    def left_out(folder, names):
        return set(_LEFT_OUT(folder, names)) | {name for name in names if name in _LINKED}

    try:
        shutil.copytree(source, target, symlinks=True, ignore=left_out, ignore_dangling_symlinks=True)
        for name in _LINKED:
            if os.path.isdir(os.path.join(source, name)):
                os.symlink(os.path.join(source, name), os.path.join(target, name))
    except (OSError, shutil.Error) as error:
        reason = error.args[0][0][2] if isinstance(error, shutil.Error) and error.args[0] else error
        raise PortError(f"cannot copy {quoted_text(source)}: {printable_text(str(reason), 300)}") from error


def _environment() -> dict[str, str]:
    removed = ("DS_ACCELERATOR", "SIM_STANDS_IN_FOR", "ANYACCEL_PORT_PROGRAM")
    environment = {key: value for key, value in os.environ.items() if key not in removed and not key.startswith("SIM_CHECK")}
    environment["ANYACCEL_DEEPSPEED"] = "1"  # for programs that were ported to DeepSpeed's accelerator
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.basename(package) not in ("site-packages", "dist-packages"):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), package)))
    return environment


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(64 << 20).decode("utf-8", "replace")


def _problems(folder: str) -> list[dict]:
    """The checker's problems. Each process of the program writes a file."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("problems"):
            try:
                found += json.loads(_read(os.path.join(folder, name)))["problems"]
            except (ValueError, KeyError, TypeError) as error:
                raise PortError(f"the checker's report {quoted_text(name)} cannot be read: {quoted_text(error)}") from error
    return found


def _execute(words: list[str], folder: str, output: str, limit: float, environment: dict[str, str] | None = None) -> Run:
    os.makedirs(output)
    begin = time.monotonic()
    paths = [os.path.join(output, name) for name in ("stdout", "stderr")]
    with open(paths[0], "wb") as out, open(paths[1], "wb") as err:
        process = subprocess.Popen(words,
                                   cwd=folder,
                                   stdin=subprocess.DEVNULL,
                                   stdout=out,
                                   stderr=err,
                                   start_new_session=True,
                                   env=environment or _environment())
        try:
            code = process.wait(limit or None)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Run(code, time.monotonic() - begin, *map(_read, paths), _problems(output))


def _before(given: Options, folder: str, output: str) -> Run:
    shell = ["sh", "-c", given.verify]
    if given.verify_before == "cpu":
        return _execute(shell, folder, output, given.verify_timeout, {**_environment(), "CUDA_VISIBLE_DEVICES": ""})
    return _execute([_program(), "sim", "run", "--stands-in-for", "cuda", "--", *shell], folder, output, given.verify_timeout)


def _after(given: Options, folder: str, output: str) -> Run:
    words = [
        _program(), "sim", "run", "--check", "report", "--json",
        os.path.join(output, "problems-%p.json"), "--", "sh", "-c", given.verify
    ]
    return _execute(words, folder, output, given.verify_timeout)


def _fix(given: Options, tree: str, copy: str) -> Report:
    """Fix the files in the copy. Reports name the original files."""
    found = [
        dataclasses.replace(file, path=os.path.join(copy, os.path.relpath(file.path, tree)))
        for file in files.discover([tree], given.root, given.exclude, given.off, given.own_files)
    ]
    request = Request(given.to, fixes_for(given.unsafe_fixes), True, given.rules, given.max_file_size)
    return Report(given.to, pool.examine_files(found, request, given.jobs), fix=True)


def _compare(given: Options, before: Run, after: Run, paths: tuple[str, ...]) -> compare.Comparison:
    """Compare standard output, and the numbers in standard error, which often contains the log."""
    result = compare.compare(before.stdout, after.stdout, given.tolerance, paths)
    errors = compare.compare(before.stderr, after.stderr, given.tolerance, paths)
    result.numbers += errors.numbers
    result.largest = max(result.largest, errors.largest)
    result.differences += [each for each in errors.differences if each.kind == "number"]
    return result


def _without_noise(result: compare.Comparison, noise: compare.Comparison) -> int:
    """Drop the differences in lines that also differ between two runs of the unchanged program.
    Returns their number."""
    varying = {each.before for each in noise.differences if each.before}
    kept = [each for each in result.differences if each.before not in varying or not each.before]
    dropped, result.differences = len(result.differences) - len(kept), kept
    return dropped


def _exit(run: Run) -> str:
    return "exceeded the time limit" if run.code is None else f"ended with exit code {run.code}"


def _last_lines(run: Run) -> list[str]:
    return [f"    {one_line(line, 200)}" for line in run.stderr.strip().split("\n")[-5:] if line.strip()]


def _text(report: Report, before: Run, after: Run, result: compare.Comparison, noise: int) -> str:
    lines = [f"{number(len(report.fixed), 'finding')} fixed in a copy."]
    for name, run in (("before", before), ("after", after)):
        lines.append(f"{name}: {_exit(run)} after {run.seconds:.1f} s")
        if run.code != 0:
            lines += _last_lines(run)
    for each in result.differences[:_SHOWN]:
        if each.kind == "number":
            lines += [
                f"numbers differ by {each.relative:.2g}:", f"    before: {one_line(each.before, 200)}",
                f"    after:  {one_line(each.after, 200)}"
            ]
        else:
            lines.append(f"{each.kind}: {one_line(each.before or each.after, 200)}")
    if len(result.differences) > _SHOWN:
        lines.append(f"and {len(result.differences) - _SHOWN} more differences")
    for problem in after.problems[:_SHOWN]:
        lines.append(f"checker: {problem.get('kind')}: {one_line(str(problem.get('what', '')), 300)}")
    summary = (f"{number(result.numbers, 'number')} compared, the largest relative difference is {result.largest:.2g}; "
               f"{number(len(result.differences), 'difference')}, {number(len(after.problems), 'checker problem')}.")
    if noise:
        summary += f" {number(noise, 'difference')} ignored, because the unchanged program differs there, too."
    return "\n".join([*lines, summary]) + "\n"


def _json(report: Report, before: Run, after: Run, result: compare.Comparison, noise: int, same: bool) -> str:
    runs = {name: {"exit_code": run.code, "seconds": round(run.seconds, 3)} for name, run in (("before", before), ("after", after))}
    return json.dumps(
        {
            "version":
            1,
            "target":
            report.target,
            "same":
            same,
            "fixed":
            len(report.fixed),
            **runs, "numbers":
            result.numbers,
            "largest_relative_difference":
            min(result.largest, sys.float_info.max),
            "ignored_differences":
            noise,
            "differences":
            [dataclasses.asdict(each) | {
                "relative": min(each.relative, sys.float_info.max)
            } for each in result.differences],
            "problems":
            after.problems
        },
        indent=1) + "\n"


def run(given: Options) -> int:
    """Verify a port, and return the exit code."""
    from .__main__ import emit, write_html
    tree = os.path.realpath(given.paths[0])
    name = os.path.basename(tree) or "root"
    with tempfile.TemporaryDirectory(prefix="anyaccel-verify-", ignore_cleanup_errors=True) as folder:
        folder = os.path.realpath(folder)
        trees = [os.path.join(folder, each, name) for each in ("before", "after")]
        for each in trees:
            _copy(tree, each)
        report = _fix(given, tree, trees[1])
        for each in (*report.failures, *report.broken):
            print(f"anyaccel port: {quoted_text(each.file)} was not changed: {printable_text(each.failure or each.error)}",
                  file=sys.stderr)
        before = _before(given, trees[0], os.path.join(folder, "before-output"))
        after = _after(given, trees[1], os.path.join(folder, "after-output"))
        paths, noise = tuple(trees), 0
        result = _compare(given, before, after, paths)
        if result.differences and before.code is not None:
            again = os.path.join(folder, "again", name)
            _copy(tree, again)
            second = _before(given, again, os.path.join(folder, "again-output"))
            noise = _without_noise(result, _compare(given, before, second, (*paths, again)))
    same = before.code == after.code == 0 and not result.differences and not after.problems and not report.failures
    emit(
        _json(report, before, after, result, noise, same) if given.format == "json" else _text(
            report, before, after, result, noise), given.output)
    write_html(given, report)
    return 0 if same else 1
