from runner.declare import Benchmark, Side, Target


def ours(numbers):
    return numbers["AnyAccel"]


benchmark = Benchmark(
    title="Calls",
    about="""Nanoseconds per call on the CPU, in a tight loop on one thread: C++ for AnyAccel,
        `timeit` for DeepSpeed's Python accelerator. DeepSpeed has no event record, because its CPU
        accelerator has no events. "bare current device" is c10's `VirtualGuardImpl::getDevice()`.
        "bare clock" is a reading of the steady clock, which takes most of the time of an event
        record. Each round takes the median of five C++ processes, because a process's placement in
        memory alone can make reading the clock twice as slow. DeepSpeed's `memory_allocated` reads
        the size of the process; AnyAccel's counts tensor bytes.""",
    sides=[
        Side("AnyAccel", ["{build}/bin/bench_calls"], repeat=5, env={"DS_ACCELERATOR": "cpu"}),
        Side("DeepSpeed 0.19.8", ["{python}", "{here}/calls_deepspeed.py"], env={"DS_ACCELERATOR": "cpu"},
             needs=["{python}", "-c", "import deepspeed"], ours=()),
    ],
    targets=[
        Target("get_accelerator()", lambda n: ours(n)["get_accelerator_ns"], at_most=5, unit="ns"),
        Target("current_device(), overhead over the bare c10 call",
               lambda n: ours(n)["current_device_ns"] - ours(n)["bare_current_device_ns"], at_most=20, unit="ns"),
        Target("memory_allocated() on the CPU", lambda n: ours(n)["memory_allocated_ns"], at_most=20, unit="ns"),
        Target("event record on the CPU", lambda n: ours(n)["event_record_ns"], at_most=60, unit="ns"),
    ])
