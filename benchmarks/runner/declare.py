"""What a benchmark file (benchmarks/*.bench.py) says: the sides to compare and the targets to meet."""
import dataclasses
import pathlib
import runpy
from typing import Callable


@dataclasses.dataclass
class Side:
    """One of the things compared.

    command: words; {build}, {python}, {here} and {repo} are filled in. It prints one JSON object of numbers as its
        last line of output, for example {"get_accelerator_ns": 1.2}.
    timed: instead of reading numbers, the whole run is timed: {"wall_ms": ...}, median of `repeat` runs a round.
    env: variables for it, beside the environment.
    keep: names of the numbers to keep; none: all that it prints.
    needs: a command that must end with 0 for the side to take part (a peer that is not installed); the page then
        says that it was left out.
    ours: prefixes of the numbers that measure AnyAccel; () for a peer. `benchmarks/run --compare` compares these only, and passes the
        prefixes in BENCHMARK_ONLY, so that the program can leave out the rest: see by_turns.wanted().
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
    """A figure that must be met. `value` gets the numbers of one round, {side: {number: value}}, and is judged by its
    median over the rounds. Exactly one of at_most and at_least."""
    text: str
    value: Callable
    at_most: float = None
    at_least: float = None
    unit: str = ""


@dataclasses.dataclass
class Benchmark:
    """`about`: what is measured and how, for the page. `prepare`: a command to run once before the rounds.

    few_rounds: why there are fewer than 7 rounds; needed then, and the page says it. Refused where a round is shorter than
        measure.LONG_ROUND_S: there, 7 cost little.
    warm_up: run each side once, uncounted, before the rounds. A side that takes a minute leaves that to a shorter `prepare`.
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
    """All benchmarks of a folder, by name. A file has one as `benchmark`, named as the file, or several as `benchmarks`, by their names."""
    out = []
    for file in sorted(folder.glob("*.bench.py")):
        said = runpy.run_path(str(file))
        for name, benchmark in said.get("benchmarks", {file.name.removesuffix(".bench.py"): said.get("benchmark")}).items():
            benchmark.name = name
            if benchmark.rounds < 7 and not benchmark.few_rounds:
                raise SystemExit(f"benchmarks: {file.name}: at least 7 rounds, or a reason in few_rounds")
            out.append(benchmark)
    return out
