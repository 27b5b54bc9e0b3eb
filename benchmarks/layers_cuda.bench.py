from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/layers_cuda.py"]


def faster(theirs, name):
    return lambda numbers: numbers["one process"][f"{theirs}_{name}_ms"] / numbers["one process"][f"ours_{name}_ms"]


benchmark = Benchmark(
    title="A transformer layer and block-sparse attention on a GPU",
    about="""Milliseconds forward and backward in bfloat16: a layer of 1024 (16 heads, 16 x 512 rows) beside the same of torch's operations with its attention, as they are and
        compiled; attention over a layout of blocks of 64 (a window of three and one global block, 4 x 16 heads of 64) beside torch's with a mask and FlexAttention. Results and
        gradients are compared first. Left out where there is no such device.""",
    sides=[Side("one process", PROGRAM, env={"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cuda"}, needs=["env", "DS_ACCELERATOR=cuda", "PYTHONPATH={build}/python", *PROGRAM, "needs"],
                ours=("ours_",))],
    targets=[Target("layer: torch's time over ours", faster("torch", "layer"), at_least=1.0, unit="x"),
             Target("layer: compiled torch's time over ours", faster("compiled", "layer"), at_least=0.8, unit="x"),
             *[Target(f"sparse, {length}: FlexAttention's time over ours", faster("flex", f"sparse_{length}"), at_least=0.8, unit="x") for length in (2048, 8192)],
             *[Target(f"sparse, {length}: masked attention's time over ours", faster("masked", f"sparse_{length}"), at_least=2.0, unit="x") for length in (2048, 8192)]])
