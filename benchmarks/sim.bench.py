from runner.declare import Benchmark, Side, Target

ONE = {"OMP_NUM_THREADS": "1"}
# The sizes of the demo's model (src/llm/train/options.cpp).
TRAIN = ["{build}/bin/anyaccel", "train", "--json", "--steps", "40", "--data", "{repo}/src", "--batch-size", "1", "--context",
         "256", "--hidden", "320", "--layers", "2", "--heads", "5", "--kv-heads", "5", "--head-dim", "64", "--intermediate",
         "864", "--held-out-tokens", "0"]
# This command fails if the build has no simulator.
NEEDS = ["env", "DS_ACCELERATOR=sim", "{build}/bin/anyaccel", "report"]
CHECKED = "train on sim, checked"
OPS = ("add_", "add", "mm", "gelu", "layer_norm")


def ops(name):
    return Side(f"ops on {name}", ["{build}/bin/bench_sim"], env={"DS_ACCELERATOR": name, **ONE}, needs=NEEDS)


def train(name, label=None, **variables):
    return Side(label or f"train on {name}", [*TRAIN, "--out", "{build}/benchmarks/sim_" + name],
                env={"DS_ACCELERATOR": name, **ONE, **variables}, keep=("tokens_per_second",), needs=NEEDS)


def step_over_cpu(label):
    return lambda sides: sides["train on cpu"]["tokens_per_second"] / sides[label]["tokens_per_second"]


def more(op, n):
    return lambda sides: sides["ops on sim"][f"{op}_{n}_complete_us"] - sides["ops on cpu"][f"{op}_{n}_complete_us"]


targets = [Target(f"{op}, 64 elements: time to completion, overhead over the CPU", more(op, 64), at_most=5, unit="us") for op in OPS]
targets.append(Target("training step: time relative to the CPU, one thread each",
                      step_over_cpu("train on sim"), at_most=1.3, unit="times"))
targets.append(Target("the same with SIM_CHECK=report", step_over_cpu(CHECKED), at_most=2, unit="times"))

benchmark = Benchmark(
    title="The simulated accelerator",
    about="""Microseconds per op on n float32 elements on the CPU and on the simulated accelerator,
        until the call returns (submit) and until the result is complete, and tokens per second of
        training the demo's model. All programs use one thread.""",
    sides=[ops("cpu"), ops("sim"), train("cpu"), train("sim"), train("sim", CHECKED, SIM_CHECK="report")],
    targets=targets)
