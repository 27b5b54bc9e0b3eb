from runner.declare import Benchmark, Side, Target


def faster(peer, key, ours="anyaccel"):
    def value(numbers):
        figures = numbers["one process"]
        return figures[f"{peer}_{key}_us"] / figures[f"{ours}_{key}_us"]
    return value


def best(key):
    """Return a ratio that is at least 1 if CPUAdam reaches 1.15 times the speed of DeepSpeed or
    0.95 times that of the plain kernel.
    """
    return lambda n: max(faster("deepspeed", key)(n) / 1.15, faster("plain", key)(n) / 0.95)


targets = []
for dtype in ("fp32", "bf16"):
    for millions in ("0.1", "1", "10", "100"):
        for threads in (1, 2):
            key = f"{dtype}_{millions}M_{threads}t"
            text = f"{millions} M {dtype}, {threads} thread{'s' if threads > 1 else ''}: "
            small = millions in ("0.1", "1")
            targets.append(Target(text + "speedup over DeepSpeed", faster("deepspeed", key), at_least=1.0, unit="x"))
            if small:
                targets.append(Target(text + "the better of 1/1.15 of the speedup over DeepSpeed and 1/0.95 of that over plain", best(key), at_least=1.0, unit="x"))
            else:
                targets.append(Target(text + "share of the plain kernel's bandwidth", faster("plain", key), at_least=0.95, unit="x"))
            targets.append(Target(text + "speedup over torch's fused AdamW", faster("torch", key, "own_state"),
                                  at_least=1.5 if small else 1.0, unit="x"))

benchmark = Benchmark(
    title="CPUAdam",
    about="""Microseconds per AdamW step on one tensor of 0.1 to 100 million parameters. All
        implementations alternate on the same arrays in one process. "anyaccel" and "deepspeed" call
        adam_update() from Python with float32 state. "torch" is step() of
        torch.optim.AdamW(fused=True), whose state has the parameters' dtype, and "own_state" is
        AnyAccel with such a state. "plain" only reads and writes the bytes that a step must read
        and write.""",
    sides=[Side("one process", ["{python}", "{here}/cpu_adam.py", "{build}/lib/libbench_cpu_adam_plain.so"],
                env={"DS_ACCELERATOR": "cpu", "PYTHONPATH": "{build}/python"}, needs=["{python}", "-c", "import deepspeed"],
                ours=("anyaccel_", "own_state_"))],
    targets=targets)
