from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/sparse_attn.py"]
ENVIRONMENT = {"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cpu"}


def times(peer, number, mine=None):
    return lambda sides: sides[peer][number] / sides["AnyAccel"][mine or number]


targets = []
for length in (2048, 4096, 8192):
    for density, least in ((10, 6.0), (25, 2.5)):
        for kind, words in (("forward", "forward"), ("both", "forward and backward")):
            targets.append(Target(f"{words}, length {length}, {density} % of the blocks: over dense attention",
                                  times("dense SDPA", f"{kind}_{length}_ms", f"{kind}_{length}_{density}_ms"), at_least=least,
                                  unit="times"))
        targets.append(Target(f"forward, length {length}, {density} % of the blocks: over FlexAttention",
                              times("FlexAttention, compiled", f"forward_{length}_{density}_ms"), at_least=1.0, unit="times"))
targets.append(Target("forward and backward of a single head, length 4096, 25 %: two threads over one",
                      times("AnyAccel", "one_head_1_ms", "one_head_2_ms"), at_least=1.6, unit="times"))

benchmark = Benchmark(
    title="Sparse attention",
    about="""Milliseconds of attention, float32, batch 1, 8 heads of dimension 64, random layouts in blocks of 64, as many in
        each row, different for each head; the best of twelve, four and two calls at lengths 2048, 4096 and 8192 (with
        the backward pass of five, two and one). The sparse sides have the same layouts, and their results are compared beforehand with those of dense attention that is given the
        layout as a mask. Dense attention is timed without a mask, its fastest way. FlexAttention is torch's, compiled for
        the processor, and has no backward pass there.""",
    sides=[
        Side("AnyAccel", [*PROGRAM, "anyaccel"], env=ENVIRONMENT),
        Side("dense SDPA", [*PROGRAM, "dense"], ours=()),
        Side("FlexAttention, compiled", [*PROGRAM, "flex"], needs=["c++", "--version"], ours=()),
    ],
    prepare=["env", *(f"{name}={value}" for name, value in ENVIRONMENT.items()), *PROGRAM, "check"],
    targets=targets)
