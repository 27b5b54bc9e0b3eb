"""Runs the programs of a benchmark alternately and summarizes the rounds."""
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time

from . import load

LONG_ROUND_S = 60  # a benchmark with rounds this long may declare fewer than 7
EXTRA_ROUNDS = 2  # fail if the number of disturbed rounds exceeds this multiple of the requested rounds


class SideFailed(Exception):
    pass


def fill(words, places):
    """Replace {name} with its path. Other braces remain, because commands may contain code."""
    for name, path in places.items():
        words = [word.replace("{" + name + "}", path) for word in words]
    return words


def call(side, places):
    """Run a program once and return its numbers."""
    command = fill(side.command, places)
    environment = os.environ | dict(zip(side.env, fill(side.env.values(), places)))
    start = time.perf_counter()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SideFailed(f"{side.name}: {error}") from error
    wall = (time.perf_counter() - start) * 1e3
    if done.returncode != 0:
        raise SideFailed(f"{side.name}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    if side.timed:
        return {"wall_ms": wall}
    try:
        numbers = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise SideFailed(f"{side.name}: last line of output is not a JSON object: got {done.stdout[-200:]!r}") from error
    return {name: float(value) for name, value in numbers.items()
            if type(value) in (int, float) and (not side.keep or name in side.keep)}


def one_turn(side, places):
    runs = [call(side, places) for _ in range(side.repeat)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def summary(values):
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": statistics.median(values), "low": quartiles[0], "high": quartiles[2],
            "min": min(values), "max": max(values), "rounds": len(values)}


def judge(target, rounds):
    values = [target.value(numbers) for numbers in rounds]
    out = {"text": target.text, "unit": target.unit, **summary(values)}
    out["limit"] = target.at_most if target.at_most is not None else target.at_least
    out["kind"] = "at most" if target.at_most is not None else "at least"
    out["pass"] = out["median"] <= out["limit"] if out["kind"] == "at most" else out["median"] >= out["limit"]
    return out


def machine():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model or platform.processor() or platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.release()}", "python": platform.python_version()}


def answer(places, *command):
    """Return a command's output, or "" if it cannot be started."""
    try:
        return subprocess.run(fill(command, places), capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def versions(places):
    """Return the measured commit and both LibTorch versions, because peers with a different
    LibTorch are not comparable.
    """
    report = answer(places, "{build}/bin/anyaccel", "report", "--json")
    return {"commit": answer(places, "git", "-C", "{repo}", "describe", "--always", "--dirty"),
            "libtorch": json.loads(report)["versions"]["libtorch"] if report else "",
            "libtorch_of_peers": answer(places, "{python}", "-c", "import torch; print(torch.__version__)")}


def taking_part(benchmark, places):
    present, absent = [], []
    for side in benchmark.sides:
        ok = not side.needs or subprocess.run(fill(side.needs, places), capture_output=True, check=False).returncode == 0
        (present if ok else absent).append(side)
    return present, absent


def judged(benchmark, rounds, absent):
    """Return the results of the targets, and the texts of targets whose programs were skipped."""
    met, left_out = [], []
    for target in benchmark.targets:
        try:
            met.append(judge(target, rounds))
        except KeyError as missing:
            if not absent:
                raise SideFailed(f"target '{target.text}': missing number {missing}") from missing
            left_out.append(target.text)
    return met, left_out


def run(benchmark, places, count, max_load):
    sides, absent = taking_part(benchmark, places)
    if not sides:
        return None
    if benchmark.prepare:
        subprocess.run(fill(benchmark.prepare, places), check=True)
    for side in sides if benchmark.warm_up else []:  # fills the page cache
        call(side, places)
    rounds, loads, disturbed = [], [], 0
    while len(rounds) < count:
        load.wait_until_quiet(max_load)
        numbers = {}
        begin = time.monotonic()
        # The order alternates, so that a program does not always run after the same program.
        with load.Watch() as watch:
            for side in sides if len(rounds) % 2 == 0 else reversed(sides):
                numbers[side.name] = one_turn(side, places)
        if count < 7 and time.monotonic() - begin < LONG_ROUND_S:
            raise SideFailed(f"too few rounds: got {count}, expected at least 7, because a round takes less than {LONG_ROUND_S} s")
        if watch.others <= max_load:
            rounds.append(numbers)
            loads.append(watch.others)
        else:
            disturbed += 1
            print(f"  round disturbed: other programs used {watch.others:.2f} cores", file=sys.stderr)
            if disturbed > EXTRA_ROUNDS * count:
                raise load.TooBusy(f"machine too busy: other programs disturbed {disturbed} rounds; no figures are given")
        print(f"  round {len(rounds)} of {count}", file=sys.stderr)
    targets, left_out = judged(benchmark, rounds, absent)
    names = {side.name: list(rounds[0][side.name]) for side in sides}
    few = {"few_rounds": benchmark.few_rounds, "raw": {side: {name: [numbers[side][name] for numbers in rounds] for name in found}
                                                       for side, found in names.items()}} if count < 7 else {}
    return {"name": benchmark.name, "title": benchmark.title, "about": " ".join(benchmark.about.split()),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "machine": machine(),
            "versions": versions(places), "rounds": count, "disturbed": disturbed, "max_load": max_load,
            "load": max(loads), "absent": [side.name for side in absent], "targets": targets, "not_judged": left_out,
            "numbers": {side: {name: summary([numbers[side][name] for numbers in rounds]) for name in found}
                        for side, found in names.items()}, **few}
