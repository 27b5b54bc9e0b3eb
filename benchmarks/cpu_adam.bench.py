from runner.declare import Benchmark, Side, Target


def faster(peer, key, ours="anyaccel"):
    def value(numbers):
        figures = numbers["one process"]
        return figures[f"{peer}_{key}_us"] / figures[f"{ours}_{key}_us"]
    return value


def best(key):
    """Met by either: 1.15 times DeepSpeed's speed, or 0.95 of the plain kernel's."""
    return lambda n: max(faster("deepspeed", key)(n) / 1.15, faster("plain", key)(n) / 0.95)


targets = []
for dtype in ("fp32", "bf16"):
    for millions in ("0.1", "1", "10", "100"):
        for threads in (1, 2):
            key = f"{dtype}_{millions}M_{threads}t"
            text = f"{millions} M {dtype}, {threads} thread{'s' if threads > 1 else ''}: "
            small = millions in ("0.1", "1")
            targets.append(Target(text + "DeepSpeed's time over ours", faster("deepspeed", key), at_least=1.0, unit="x"))
            if small:
                targets.append(Target(text + "the better of that over 1.15 and plain's over 0.95", best(key), at_least=1.0, unit="x"))
            else:
                targets.append(Target(text + "share of the plain kernel's bandwidth", faster("plain", key), at_least=0.95, unit="x"))
            targets.append(Target(text + "torch's fused AdamW's time over ours", faster("torch", key, "own_state"),
                                  at_least=1.5 if small else 1.0, unit="x"))

benchmark = Benchmark(
    title="CPUAdam",
    about="""Microseconds of a step of AdamW over one tensor of so many million parameters, all sides over the same arrays in one process,
        by turns. "anyaccel" and "deepspeed" are calls of adam_update() from Python with float32 state; "torch" is step() of
        torch.optim.AdamW(fused=True), whose state has the parameters' type, and "own_state" ours with such state; "plain" only reads and
        writes the bytes that a step must.""",
    sides=[Side("one process", ["{python}", "{here}/cpu_adam.py", "{build}/lib/libbench_cpu_adam_plain.so"],
                env={"DS_ACCELERATOR": "cpu", "PYTHONPATH": "{build}/python"}, needs=["{python}", "-c", "import deepspeed"],
                ours=("anyaccel_", "own_state_"))],
    targets=targets)
