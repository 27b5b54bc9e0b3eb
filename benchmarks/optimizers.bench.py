from runner.declare import Benchmark, Side, Target

# For each optimizer: its peers, each with our variant whose states have the same dtype. "anyaccel"
# has float32 states; "own_state" has states in the parameters' dtype.
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
    about="""Microseconds per step on 1 or 10 million parameters. All implementations alternate on
        the same arrays in one process. `cpu_` ops work on one tensor, `fused_` ops on 20 large and
        20 small tensors. "anyaccel" and "deepspeed" (for `cpu_` ops) have float32 states; all
        others have states in the parameters' dtype. "torch_fused" and "torch_foreach" are step() of
        torch's optimizer. Torch has neither Lion nor LAMB, so for these "torch_foreach" is a step
        written with torch._foreach_ calls over all tensors.""",
    sides=[Side("one process", ["{python}", "{here}/optimizers.py"],
                env={"DS_ACCELERATOR": "cpu", "PYTHONPATH": "{build}/python"}, needs=["{python}", "-c", "import deepspeed"],
                ours=("anyaccel_", "own_state_"))],
    targets=[Target(f"{op}, {millions} M {dtype}, {threads} thread{'s' if threads > 1 else ''}: speedup over {peer}",
                    faster(peer, ours, f"{op}_{dtype}_{millions}M_{threads}t"), at_least=1.0, unit="x")
             for op, peers in PEERS.items() for peer, ours in peers.items()
             for dtype in ("fp32", "bf16") for millions in ("1", "10") for threads in (1, 2)])
