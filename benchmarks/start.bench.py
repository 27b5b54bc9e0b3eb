from runner.declare import Benchmark, Side, Target


def timed(name, *command, needs=(), repeat=5, ours=("",)):
    return Side(name, list(command), timed=True, repeat=repeat, needs=list(needs), ours=ours)


def wall(numbers, name):
    return numbers[name]["wall_ms"]


# Time that importing a package takes after `import torch`: wall time, because imports read files.
IMPORT = ("import time, torch; begin = time.perf_counter(); import {0}; "
          "print('{{\"import_ms\": %.2f}}' % ((time.perf_counter() - begin) * 1e3))")


def imported(name, needs=()):
    return Side(f"import {name}, after torch", ["{python}", "-c", IMPORT.format(name)], env={"PYTHONPATH": "{build}/python"}, needs=list(needs),
                ours=() if needs else ("",))


benchmark = Benchmark(
    title="Start",
    about="""Milliseconds from start to end of a program whose files are in the page cache. Each figure of a
        round is the median of several runs. "bare LibTorch program" links LibTorch and prints one
        number. Imports are timed within a process that has imported torch.""",
    sides=[
        timed("anyaccel --help", "{build}/bin/anyaccel", "--help"),
        timed("anyaccel topology", "{build}/bin/anyaccel", "topology"),
        timed("anyaccel report", "{build}/bin/anyaccel", "report"),
        timed("bare LibTorch program", "{build}/bin/bench_bare_libtorch", ours=()),
        timed("python -c 'import torch'", "{python}", "-c", "import torch", needs=["{python}", "-c", "import torch"], repeat=1, ours=()),
        timed("DeepSpeed's ds_report", "{python}", "-m", "deepspeed.env_report", needs=["{python}", "-c", "import deepspeed"],
              repeat=1, ours=()),
        imported("anyaccel"),
        imported("deepspeed", needs=["{python}", "-c", "import deepspeed"]),
    ],
    targets=[
        Target("anyaccel --help", lambda n: wall(n, "anyaccel --help"), at_most=20, unit="ms"),
        Target("anyaccel topology", lambda n: wall(n, "anyaccel topology"), at_most=20, unit="ms"),
        Target("anyaccel report, relative to the bare LibTorch program",
               lambda n: wall(n, "anyaccel report") / wall(n, "bare LibTorch program"), at_most=1.5, unit="times"),
        Target("import anyaccel, after torch", lambda n: n["import anyaccel, after torch"]["import_ms"], at_most=50, unit="ms"),
    ])
