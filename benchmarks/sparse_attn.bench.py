from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/sparse_attn.py"]
ENVIRONMENT = {"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cpu"}


def times(peer, number, mine=None):
    return lambda sides: sides[peer][number] / sides["AnyAccel"][mine or number]


targets = []
for length in (2048, 4096, 8192):
    for density, least in ((10, 6.0), (25, 2.5)):
        for kind, words in (("forward", "forward"), ("both", "forward and backward")):
            targets.append(Target(f"{words}, length {length}, {density} % of the blocks: speedup over dense attention",
                                  times("dense SDPA", f"{kind}_{length}_ms", f"{kind}_{length}_{density}_ms"), at_least=least,
                                  unit="times"))
        targets.append(Target(f"forward, length {length}, {density} % of the blocks: speedup over FlexAttention",
                              times("FlexAttention, compiled", f"forward_{length}_{density}_ms"), at_least=1.0, unit="times"))
targets.append(Target("forward and backward of a single head, length 4096, 25 %: speedup of two threads over one",
                      times("AnyAccel", "one_head_1_ms", "one_head_2_ms"), at_least=1.6, unit="times"))

benchmark = Benchmark(
    title="Sparse attention",
    about="""Milliseconds per attention call in float32, with batch 1, 8 heads of dimension 64 and
        random layouts in blocks of 64. Each row of a layout has the same number of blocks, and each
        head has its own layout. The figures are the best of twelve, four and two calls at lengths
        2048, 4096 and 8192 (with the backward pass: five, two and one). The sparse implementations
        use the same layouts. Beforehand, their results are compared with dense attention that has
        the layout as its mask. Dense attention is timed without a mask, which is its fastest mode.
        FlexAttention is torch's, compiled for the processor, where it has no backward pass.""",
    sides=[
        Side("AnyAccel", [*PROGRAM, "anyaccel"], env=ENVIRONMENT),
        Side("dense SDPA", [*PROGRAM, "dense"], ours=()),
        Side("FlexAttention, compiled", [*PROGRAM, "flex"], needs=["c++", "--version"], ours=()),
    ],
    prepare=["env", *(f"{name}={value}" for name, value in ENVIRONMENT.items()), *PROGRAM, "check"],
    targets=targets)
