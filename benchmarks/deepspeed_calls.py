"""Times calls to DeepSpeed's and AnyAccel's accelerators in one process, alternating between them.

Prints {"<accelerator>_<call>_ns": nanoseconds}. The accelerators are stock (DeepSpeed's), package
(anyaccel.get_accelerator()) and bridge (the object that DeepSpeed gets from `import
anyaccel.deepspeed`).

usage: deepspeed_calls.py CALL...    (CALL is a Python expression such as "device_count()")
"""
import contextlib
import json
import statistics
import sys
import timeit

TURNS = 9
TURN_S = 0.004


def by_turns(sides, statement):
    """Return {accelerator: median nanoseconds} for a statement that uses the accelerator `a`,
    alternating between accelerators.

    The statement looks up the method in each call, as programs do.
    """
    timers = {name: timeit.Timer(statement, globals={"a": value}) for name, value in sides.items()}
    counts = {name: max(1, int(TURN_S / (timer.timeit(10) / 10))) for name, timer in timers.items()}
    times = {name: [] for name in sides}
    for turn in range(TURNS):
        for name in list(sides) if turn % 2 else reversed(sides):
            times[name].append(timers[name].timeit(counts[name]) / counts[name] * 1e9)
    return {name: statistics.median(values) for name, values in times.items()}


def main(calls):
    with contextlib.redirect_stdout(sys.stderr):
        import anyaccel.deepspeed
        import deepspeed
        from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator
        given = deepspeed.accelerator.get_accelerator
        sides = {"stock": CPU_Accelerator(), "package": anyaccel.get_accelerator(), "bridge": given()}
        out = {f"{side}_get_accelerator()_ns": value for side, value in
               by_turns({"stock": given, "package": anyaccel.get_accelerator}, "a()").items()}
        for call in calls:
            out |= {f"{side}_{call}_ns": value for side, value in by_turns(sides, f"a.{call}").items()}
    print(json.dumps(out))


main(sys.argv[1:])
