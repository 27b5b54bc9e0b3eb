from runner.declare import Benchmark, Side, Target

SHAPES = ("64x128x8x32", "128x256x8x32", "32x512x4x32")
DTYPES = {"float32": "fp32", "bfloat16": "bf16"}


def times(side, key):
    return lambda sides: sides[side][f"sdpa_{key}_ms"] / sides[side][f"anyaccel_{key}_ms"]


targets = [Target(f"{dtype}, {words}, {shape}: speedup over SDPA", times(dtype, f"{kind}_{shape}"), at_least=1.2, unit="times")
           for dtype in DTYPES for kind, words in (("forward", "forward"), ("both", "forward and backward")) for shape in SHAPES]

benchmark = Benchmark(
    title="Evoformer attention",
    about="""Milliseconds per attention call with the two biases of an Evoformer block, shape [1,
        entries, length, heads, dim], on two threads. The biases are a mask over each entry's keys
        (a fifth of them at -1e9) and a pair bias that all entries share. "sdpa" is torch's
        scaled_dot_product_attention with the sum of the biases as its mask. The implementations
        alternate in one process, and the fastest call is reported. Results and all five gradients
        are compared beforehand.""",
    sides=[Side(dtype, ["{python}", "{here}/evoformer.py", "0.5", name], env={"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "2", "PYTHONPATH": "{build}/python"},
                ours=("anyaccel_",))
           for dtype, name in DTYPES.items()],
    targets=targets)
