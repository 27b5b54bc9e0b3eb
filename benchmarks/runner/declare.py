"""Declarations for a benchmark file (benchmarks/*.bench.py): the programs to compare and the
targets to meet.
"""
import dataclasses
import pathlib
import runpy
from typing import Callable


@dataclasses.dataclass
class Side:
    """A program that a benchmark compares with others.

    - command: program and arguments; {build}, {python}, {here} and {repo} are replaced. Its last
      line of output is a JSON object of numbers, for example {"get_accelerator_ns": 1.2}.
    - timed: time the whole run instead of reading numbers: {"wall_ms": ...}.
    - repeat: number of runs per round; the median of the runs is used.
    - env: environment variables to add.
    - keep: names of the numbers to keep (default: all).
    - needs: command that must exit with 0, for example a check that a peer is installed. If it
      fails, the program is left out, and the page reports this.
    - ours: prefixes of the numbers that measure AnyAccel; () for a peer. `benchmarks/run --compare`
      compares only these, and passes the prefixes in BENCHMARK_ONLY so that the program can skip
      all other work (by_turns.wanted()).
    """
    name: str
    command: list
    timed: bool = False
    repeat: int = 1
    env: dict = dataclasses.field(default_factory=dict)
    keep: tuple = ()
    needs: list = dataclasses.field(default_factory=list)
    ours: tuple = ("",)


@dataclasses.dataclass
class Target:
    """A figure and its limit: either at_most or at_least.

    `value` computes the figure from the numbers of one round, {program: {number: value}}. The
    median over the rounds is compared with the limit.
    """
    text: str
    value: Callable
    at_most: float = None
    at_least: float = None
    unit: str = ""


@dataclasses.dataclass
class Benchmark:
    """A comparison of programs, and a section of the page.

    - about: description of the measurement, for the page.
    - prepare: command to run once before the rounds.
    - few_rounds: reason for running fewer than 7 rounds. It is printed on the page. Without a
      reason, fewer than 7 rounds are an error. If a round is shorter than measure.LONG_ROUND_S,
      they are an error even with a reason.
    - warm_up: run each program once before the rounds, without counting it. If a run takes a
      minute, warm up in `prepare` instead.
    """
    title: str
    about: str
    sides: list
    targets: list = dataclasses.field(default_factory=list)
    rounds: int = 7
    prepare: list = dataclasses.field(default_factory=list)
    name: str = ""
    few_rounds: str = ""
    warm_up: bool = True


def find(folder: pathlib.Path):
    """Return all benchmarks of a folder, each with its name.

    A file defines either one benchmark in the variable `benchmark`, which is named after the file,
    or several in the variable `benchmarks`, {name: Benchmark}.
    """
    out = []
    for file in sorted(folder.glob("*.bench.py")):
        said = runpy.run_path(str(file))
        for name, benchmark in said.get("benchmarks", {file.name.removesuffix(".bench.py"): said.get("benchmark")}).items():
            benchmark.name = name
            if benchmark.rounds < 7 and not benchmark.few_rounds:
                raise SystemExit(f"benchmarks: {file.name}: too few rounds (got {benchmark.rounds}, expected at least 7). "
                                 "Add rounds, or give the reason in few_rounds.")
            out.append(benchmark)
    return out
