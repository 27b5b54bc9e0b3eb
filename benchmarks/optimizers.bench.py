from runner.declare import Benchmark, Side, Target

# Peers, and which of our two runs has their states: "anyaccel" float32's, "own_state" the parameters' type's.
PEERS = {"cpu_adagrad": {"deepspeed": "anyaccel", "torch_fused": "own_state", "torch_foreach": "own_state"},
         "cpu_lion": {"deepspeed": "anyaccel", "torch_foreach": "own_state"},
         "fused_adam": {"deepspeed": "own_state", "torch_fused": "own_state", "torch_foreach": "own_state"},
         "fused_lamb": {"torch_foreach": "own_state"},
         "fused_lion": {"torch_foreach": "own_state"}}


def faster(peer, ours, key):
    def value(numbers):
        figures = numbers["one process"]
        return figures[f"{peer}_{key}_us"] / figures[f"{ours}_{key}_us"]
    return value


benchmark = Benchmark(
    title="CPUAdagrad, CPULion, FusedAdam, FusedLamb and FusedLion on the processor",
    about="""Microseconds of a step over so many million parameters, all sides over the same arrays in one process, by turns; `cpu_` ops over one
        tensor, `fused_` ops over 20 large and 20 small ones. "anyaccel" and "deepspeed" (of `cpu_` ops) have float32 states, all others
        states of the parameters' type. "torch_fused" and "torch_foreach" are step() of torch's optimizer; torch has neither Lion nor
        LAMB, there "torch_foreach" is a step written with torch._foreach_ calls for all tensors at once.""",
    sides=[Side("one process", ["{python}", "{here}/optimizers.py"],
                env={"DS_ACCELERATOR": "cpu", "PYTHONPATH": "{build}/python"}, needs=["{python}", "-c", "import deepspeed"],
                ours=("anyaccel_", "own_state_"))],
    targets=[Target(f"{op}, {millions} M {dtype}, {threads} thread{'s' if threads > 1 else ''}: {peer}'s time over ours",
                    faster(peer, ours, f"{op}_{dtype}_{millions}M_{threads}t"), at_least=1.0, unit="x")
             for op, peers in PEERS.items() for peer, ours in peers.items()
             for dtype in ("fp32", "bf16") for millions in ("1", "10") for threads in (1, 2)])
