from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/inference_cuda.py"]
SHAPES = ("4096x4096", "14336x4096", "4096x14336")


def faster(ours, torchs):
    return lambda numbers: numbers["one process"][f"{torchs}_us"] / numbers["one process"][f"{ours}_us"]


benchmark = Benchmark(
    title="Products of few rows on a GPU",
    about="""Microseconds of rows times matrices of bfloat16, int8 and int4 (groups of 128), in bfloat16, beside torch's product of bfloat16 and its
        packed int4 (`_weight_int4pack_mm`), whose values are compared first; and of a layer with small matrices over a cache (32 heads of 128, 8 of keys, bfloat16) beside torch's attention
        alone. Left out where there is no such device.""",
    sides=[Side("one process", PROGRAM, env={"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cuda"}, needs=["env", "DS_ACCELERATOR=cuda", "PYTHONPATH={build}/python", *PROGRAM, "needs"],
                ours=("ours_",))],
    targets=[Target(f"{shape}, 1 row, int4: torch's time over ours", faster(f"ours_int4_{shape}_1", f"torch_int4_{shape}_1"), at_least=1.5, unit="x") for shape in SHAPES] +
            [Target(f"{shape}, 1 row, bfloat16: torch's time over ours", faster(f"ours_bf16_{shape}_1", f"torch_bf16_{shape}_1"), at_least=1.0, unit="x") for shape in SHAPES])
