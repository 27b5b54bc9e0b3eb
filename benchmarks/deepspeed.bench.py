from runner.declare import Benchmark, Side, Target

DEEPSPEED = ["{python}", "-c", "import deepspeed"]
# oneCCL is off even if it is installed, because unmodified DeepSpeed uses only gloo.
HERE = {"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cpu", "LOCAL_RANK": "0", "ANYACCEL_CCL": "off"}
STOCK, OURS = "stock DeepSpeed", "DeepSpeed on AnyAccel"

WORK = ("device_count()", "memory_allocated()", "max_memory_allocated()", "memory_reserved()", "memory_stats()", "reset_peak_memory_stats()",
        "available_memory()", "total_memory()", "create_op_builder('CPUAdamBuilder')")
# current_device_name() is included because DeepSpeed's implementation returns a constant on the
# CPU.
CONSTANTS = ("device_name()", "current_device_name()", "communication_backend_name()", "is_available()", "is_bf16_supported()", "is_triton_supported()",
             "is_synchronized_device()", "use_host_timers()", "resolves_data_dependency()", "handles_memory_backpressure()")


def sides(*command):
    """Return the two configurations that run one program: on DeepSpeed's accelerator and ops, and
    on AnyAccel's.
    """
    return [Side(name, ["{python}", *command, side], env=HERE, needs=DEEPSPEED, ours=ours)
            for name, side, ours in ((STOCK, "stock", ()), (OURS, "ours", ("",)))]


def over_stock(number):
    return lambda n: n[OURS][number] / n[STOCK][number]


def of_stock(number):
    return lambda n: n[STOCK][number] / n[OURS][number]


def call(side, name, faster):
    def value(numbers):
        stock, ours = (numbers["one process"][f"{which}_{name}_ns"] for which in ("stock", side))
        return stock / ours if faster else ours / stock
    return value


IMPORT = ("import sys, time, torch; begin = time.perf_counter(); exec('import anyaccel.deepspeed' if sys.argv[1] == 'ours' else ''); "
          "import deepspeed; print('\\n{\"import_ms\": %.2f}' % ((time.perf_counter() - begin) * 1e3))")

WORDS = {"package": "anyaccel.get_accelerator()", "bridge": "the object that DeepSpeed gets"}

benchmarks = {
    "deepspeed_import": Benchmark(
        title="DeepSpeed's import",
        about="""Milliseconds that `import deepspeed` takes in a process that has imported torch: by
            itself, and after `import anyaccel.deepspeed`, which also loads AnyAccel's library and
            creates the accelerator. "Start" shows what `import anyaccel` alone adds.""",
        sides=sides("-c", IMPORT),
        targets=[Target("added to DeepSpeed's import", lambda n: n[OURS]["import_ms"] - n[STOCK]["import_ms"], at_most=50, unit="ms")]),
    "deepspeed_calls": Benchmark(
        title="Calls compared with DeepSpeed's",
        about="""Nanoseconds per call from Python on the CPU. All accelerators alternate in one
            process. "stock" is DeepSpeed's CPU_Accelerator, "package" is
            anyaccel.get_accelerator(), and "bridge" is the object that DeepSpeed gets from `import
            anyaccel.deepspeed`. DeepSpeed's memory functions report the process's resident memory;
            AnyAccel's count tensors. If a control group limits memory, available_memory() also
            reads the group's files; DeepSpeed's ignores them. current_device_name() counts as a
            constant, because DeepSpeed's is constant on the CPU.""",
        sides=[Side("one process", ["{python}", "{here}/deepspeed_calls.py", *WORK, *CONSTANTS], env=HERE, needs=DEEPSPEED,
                    ours=("package_", "bridge_"))],
        targets=[Target("get_accelerator(), over stock's time", call("package", "get_accelerator()", False), at_most=1.5, unit="times"),
                 *(Target(f"{name} of {words}: speedup over stock", call(side, name, True), at_least=3, unit="times")
                   for side, words in WORDS.items() for name in WORK),
                 *(Target(f"{name} of {words}, over stock's time", call(side, name, False), at_most=1.5, unit="times")
                   for side, words in WORDS.items() for name in CONSTANTS)]),
    "deepspeed_zero1": Benchmark(
        title="A ZeRO-1 training step on the CPU",
        about="""Milliseconds per step (forward, backward, optimizer; median of 30) of a small
            transformer with 2 layers of width 256 on 256 tokens, under DeepSpeed's ZeRO stage 1
            with DeepSpeedCPUAdam. Stock DeepSpeed uses its own accelerator and CPUAdam; DeepSpeed on
            AnyAccel uses AnyAccel's behind the same classes. Ops are built beforehand.""",
        prepare=["{python}", "{here}/deepspeed_steps.py", "build"],
        sides=sides("{here}/deepspeed_steps.py", "train"),
        targets=[Target("speedup over stock", of_stock("step_ms"), at_least=1.0, unit="times")]),
    "deepspeed_swap": Benchmark(
        title="DeepSpeed's swapping of optimizer state",
        about="""Throughput in GB/s of DeepSpeed's PartitionedOptimizerSwapper with its default
            settings, using DeepSpeed's async_io and AnyAccel's. It swaps 2 parameters of 16 M
            float32 values with two states each (384 MiB) in and out, one after the other.""",
        prepare=["{python}", "{here}/deepspeed_steps.py", "build"],
        sides=sides("{here}/deepspeed_swap.py", "{build}/benchmarks/deepspeed_swap"),
        targets=[Target(f"swapping {way}, over stock's speed", over_stock(f"{way}_gb_s"), at_least=1.0, unit="times") for way in ("in", "out")]),
    "deepspeed_first_step": Benchmark(
        title="Time to the first step with CPUAdam",
        about="""Milliseconds from the start of a fresh Python process to the end of its first
            DeepSpeedCPUAdam step on 1 M parameters. Ops are built beforehand. Before DeepSpeed loads its
            op, it reads the CPU's name with py-cpuinfo, which starts processes.""",
        prepare=["{python}", "{here}/deepspeed_steps.py", "build"],
        sides=[Side(side.name, side.command, timed=True, env=side.env, needs=side.needs, ours=side.ours)
               for side in sides("{here}/deepspeed_steps.py", "first")],
        targets=[Target("time saved", lambda n: n[STOCK]["wall_ms"] - n[OURS]["wall_ms"], at_least=1000, unit="ms")]),
}
