"""Measures how many lines per second `anyaccel port` examines in a folder of programs.

usage: port_speed.py FOLDER [--jobs N] [--rounds N]

Runs `python -m anyaccel_port --format json FOLDER` with this interpreter and prints {"lines": lines
of the examined files, "files": ..., "findings": ..., "seconds": the rounds' median,
"seconds_per_million_lines": ..., "cpu_seconds_per_million_lines": user and system time of all
processes, which other programs on the machine disturb less}.
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "bindings/python"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="folder of programs")
    parser.add_argument("--jobs", default="2", help="number of processes (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="number of measurements (default: %(default)s)")
    options = parser.parse_args()
    command = [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv.pop(1)); from anyaccel_port.__main__ import main; sys.exit(main())",
               PACKAGE, "--no-config", "--jobs", options.jobs, "--format", "json", options.folder]
    walls, cpus = [], []
    for _ in range(options.rounds):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        walls.append(time.monotonic() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if done.returncode:
            sys.exit(f"port_speed: exit code {done.returncode}: {done.stderr[-500:]}")
    report = json.loads(done.stdout)
    million = report["lines"] / 1e6
    print(json.dumps({"lines": report["lines"], "files": report["files"], "findings": len(report["findings"]), "seconds": round(statistics.median(walls), 2),
                      "seconds_per_million_lines": round(statistics.median(walls) / million, 1),
                      "cpu_seconds_per_million_lines": round(statistics.median(cpus) / million, 1)}))


if __name__ == "__main__":
    main()
