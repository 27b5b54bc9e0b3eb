from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/inference_cuda.py"]
SHAPES = ("4096x4096", "14336x4096", "4096x14336")


def faster(ours, torchs):
    return lambda numbers: numbers["one process"][f"{torchs}_us"] / numbers["one process"][f"{ours}_us"]


benchmark = Benchmark(
    title="Matrix products with few rows on a GPU",
    about="""Microseconds of bfloat16 rows times bfloat16, int8 and int4 matrices (groups of 128),
        compared with torch's bfloat16 product and its packed int4 (`_weight_int4pack_mm`), whose
        values are checked first. Also microseconds of a layer with small matrices over a KV cache
        (32 heads of dimension 128, 8 key heads, bfloat16), compared with torch's attention alone.
        Left out if there is no GPU.""",
    sides=[Side("one process", PROGRAM, env={"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cuda"}, needs=["env", "DS_ACCELERATOR=cuda", "PYTHONPATH={build}/python", *PROGRAM, "needs"],
                ours=("ours_",))],
    targets=[Target(f"{shape}, 1 row, int4: speedup over torch", faster(f"ours_int4_{shape}_1", f"torch_int4_{shape}_1"), at_least=1.5, unit="x") for shape in SHAPES] +
            [Target(f"{shape}, 1 row, bfloat16: speedup over torch", faster(f"ours_bf16_{shape}_1", f"torch_bf16_{shape}_1"), at_least=1.0, unit="x") for shape in SHAPES])
