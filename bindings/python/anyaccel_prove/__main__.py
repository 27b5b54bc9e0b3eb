"""The command `anyaccel prove`, also available as `python3 -m anyaccel_prove`."""

import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import signal
import sys
import time

from . import facts, options, plan
from .execute import processes, run_part
from .markdown import cell
from .record import Report

FAILED, USAGE, OUT_OF_TIME, INTERRUPTED = 1, 2, 3, 130
LEAST_SECONDS = 15  # parts start only if this much time, or a twentieth of the limit, is left


def default_folder(root, backend, found, commit):
    """Return the report folder: that of the newest report for this device, commit and backend, or a
    new folder.
    """
    if root is None:
        return pathlib.Path("anyaccel-report")
    if backend in ("cpu", "sim") or found.get("stands in"):
        return root / "build/hardware-report" / backend
    slug = re.sub(r"[^a-z0-9]+", "-", str(found["device"]).lower()).strip("-") or backend
    for file in sorted((root / "docs/hardware").glob(f"*-{slug}/report.json"), reverse=True):
        try:
            old = json.loads(file.read_text())
        except (OSError, ValueError):
            continue
        if (old.get("commit"), old.get("backend")) == (commit, backend):
            return file.parent
    return root / "docs/hardware" / f"{found['date']}-{slug}"


def chosen_parts(parts, pattern):
    """Return the matching parts and the parts that they need."""
    names = {part.name for part in parts if fnmatch.fnmatchcase(part.name, pattern)}
    by_name = {part.name: part for part in parts}
    while True:
        more = {need for name in names for need in by_name[name].needs if need in by_name} - names
        if not more:
            return [part for part in parts if part.name in names]
        names |= more


def groups_of(parts):
    """Return lists of parts that may run at the same time."""
    groups = []
    for part in parts:
        if groups and part.group and groups[-1][0].group == part.group:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


class Run:
    """One call of the command: runs parts until they are done or time runs out."""
    def __init__(self, report, setting, environment, minutes, begin):
        self.report, self.setting, self.environment = report, setting, environment
        self.deadline, self.least = begin + minutes * 60, min(LEAST_SECONDS, minutes * 3)
        self.out_of_time = False

    def perform(self, part):
        left = self.deadline - time.monotonic()
        if left < self.least or processes.stopped:
            return part, None
        return part, run_part(part, self.setting.root or self.setting.build, self.environment, min(left, part.minutes * 60))

    def finish(self, part, result):
        if processes.stopped:  # the part was killed, and the next call repeats it
            return
        if result is None:
            self.out_of_time = True
            return
        self.out_of_time |= result["status"] == "interrupted" and time.monotonic() >= self.deadline - 1
        self.save(part, result)

    def save(self, part, result):
        self.report.save(part.name, result)
        print(f"{part.name:34} {result['status']:12} {result['seconds']:7.1f} s  {cell(result.get('summary', ''))[:120]}",
              flush=True)

    def run(self, parts):
        for group in groups_of(parts):
            if processes.stopped:
                return
            ready = []
            for part in group:
                missing = [need for need in part.needs if self.report.status(need) != "passed"]
                if part.skip:
                    self.save(part, {"status": "skipped", "seconds": 0, "log": "", "command": "", "summary": part.skip})
                elif missing and self.out_of_time:
                    pass  # the next call runs it
                elif missing:
                    self.save(
                        part,
                        {"status": "blocked", "seconds": 0, "log": "", "command": "", "summary": f"needs {', '.join(missing)}"})
                else:
                    ready.append(part)
            workers = max(1, facts.jobs() // 2) if len(ready) > 1 else 1
            with concurrent.futures.ThreadPoolExecutor(workers) as pool:
                for done in concurrent.futures.as_completed([pool.submit(self.perform, part) for part in ready]):
                    self.finish(*done.result())


def is_done(part, report, setting, again):
    """Return whether an earlier call has finished the part. A build folder may have been deleted."""
    if again or report.status(part.name) not in ("passed", "skipped"):
        return False
    return part.name != "build" or (setting.build / "CMakeCache.txt").exists()


def facts_of(given):
    """Return the facts for the report."""
    found = facts.device_facts(given.python, "sim" if given.stands_in else given.backend)
    if given.program:
        found["AnyAccel"] = facts.output_of(given.program, "--version").split(" ")[-1]
    if given.stands_in:
        found["stands in"] = f"the simulated accelerator, for {given.stands_in}"
    return found


def list_parts(given, root):
    """Print the names of the parts."""
    given.build = given.build or pathlib.Path("build/hardware")
    setting = plan.Setting(given, root)
    print("\n".join(part.name for part in plan.parts_of(setting, setting.environment(os.environ))))
    return 0


def main(arguments=None, root=None):
    """Run the command and return its exit code. `root` is the source tree, or None."""
    given = options.parse(sys.argv[1:] if arguments is None else arguments, root, os.environ.get("ANYACCEL_PROVE_PROGRAM"))
    if given.list:
        return list_parts(given, root)
    begin = time.monotonic()
    found = facts_of(given)
    if found["torch"] == "not importable":
        print(f"{given.name}: {given.python} cannot import torch. Pass an interpreter with torch: --python FILE.", file=sys.stderr)
        return FAILED
    commit = given.commit or facts.commit_of(root)
    out = (given.out or default_folder(root, given.backend, found, commit)).resolve()
    given.build = given.build or (root / "build/hardware" if root is not None else out / "work")
    setting = plan.Setting(given, root)
    environment = setting.environment(os.environ)
    parts = plan.parts_of(setting, environment)
    chosen = chosen_parts(parts, given.only)
    if not chosen:
        print(f"{given.name}: no part matches {given.only!r}. --list lists the parts.", file=sys.stderr)
        return USAGE
    try:
        setting.build.mkdir(parents=True, exist_ok=True)
        build = given.preset if root is not None else "installed"
        head = {"commit": commit, "backend": given.backend, "build": build, "facts": found}
        report = Report(out, head, [part.name for part in parts])
    except OSError as error:
        print(f"{given.name}: cannot write {error.filename}: {error.strerror}. Name another folder with --out or --build.",
              file=sys.stderr)
        return FAILED
    if report.kept:
        print(f"{given.name}: the earlier report is for another commit, backend or build; kept as {report.kept}", flush=True)
    print(f"{given.name}: {json.dumps({name: value for name, value in found.items() if value})}", flush=True)
    run = Run(report, setting, environment, given.minutes, begin)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: processes.stop())
    run.run([part for part in chosen if not is_done(part, report, setting, given.again)])
    if processes.stopped:
        print(f"{given.name}: interrupted: run the same command again to resume", file=sys.stderr)
        return INTERRUPTED
    states = [report.status(part.name) for part in chosen]
    bad = [part.name for part, state in zip(chosen, states) if state in ("failed", "interrupted", "blocked")]
    print(f"report: {report.folder / 'report.md'}")
    if run.out_of_time:
        print("time ran out: run the same command again to resume")
    print(f"{states.count('passed')} of {len(chosen)} parts passed, {states.count('skipped')} skipped" +
          (f"; not passed: {', '.join(bad)}" if bad else ""))
    return OUT_OF_TIME if run.out_of_time else FAILED if bad else 0


if __name__ == "__main__":
    sys.exit(main())
