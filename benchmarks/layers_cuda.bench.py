from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/layers_cuda.py"]


def faster(theirs, name):
    return lambda numbers: numbers["one process"][f"{theirs}_{name}_ms"] / numbers["one process"][f"ours_{name}_ms"]


benchmark = Benchmark(
    title="A transformer layer and block-sparse attention on a GPU",
    about="""Milliseconds of forward and backward in bfloat16. The layer has width 1024, 16 heads
        and 16 x 512 rows; it is compared with the same layer of torch's ops and attention, eager
        and compiled. The sparse attention has blocks of 64 (a window of three blocks and one global
        block, 4 x 16 heads of dimension 64); it is compared with torch's masked attention and
        FlexAttention. Results and gradients are compared first. Skipped without a GPU.""",
    sides=[Side("one process", PROGRAM, env={"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cuda"}, needs=["env", "DS_ACCELERATOR=cuda", "PYTHONPATH={build}/python", *PROGRAM, "needs"],
                ours=("ours_",))],
    targets=[Target("layer: speedup over torch", faster("torch", "layer"), at_least=1.0, unit="x"),
             Target("layer: speedup over compiled torch", faster("compiled", "layer"), at_least=0.8, unit="x"),
             *[Target(f"sparse, {length}: speedup over FlexAttention", faster("flex", f"sparse_{length}"), at_least=0.8, unit="x") for length in (2048, 8192)],
             *[Target(f"sparse, {length}: speedup over masked attention", faster("masked", f"sparse_{length}"), at_least=2.0, unit="x") for length in (2048, 8192)]])
