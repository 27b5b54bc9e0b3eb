from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/sparse_attn.py"]


def times(peer, number):
    return lambda sides: sides[peer][number] / sides["AnyAccel"][number]


targets = []
for length in (2048, 8192):
    for density, least in ((10, 6.0), (25, 2.5)):
        number = f"forward_{length}_{density}_ms"
        title = f"forward, length {length}, {density} % of the blocks"
        targets.append(Target(f"{title}: over dense attention", times("dense SDPA", number), at_least=least, unit="times"))
        targets.append(Target(f"{title}: over FlexAttention", times("FlexAttention, compiled", number), at_least=1.0,
                              unit="times"))
        if length == 2048:
            targets.append(Target(f"forward and backward, length {length}, {density} %: over dense attention",
                                  times("dense SDPA", f"both_{length}_{density}_ms"), at_least=least, unit="times"))

benchmark = Benchmark(
    title="Sparse attention",
    about="""Milliseconds of attention, float32, batch 1, 8 heads of dimension 64, random layouts in blocks of 64, as many in each row,
        different for each head, the same ones on all sides; the best of five calls. FlexAttention is torch's, compiled for the
        processor, and has no backward pass there.""",
    sides=[
        Side("AnyAccel", [*PROGRAM, "anyaccel"], env={"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cpu"}),
        Side("dense SDPA", [*PROGRAM, "dense"]),
        Side("FlexAttention, compiled", [*PROGRAM, "flex"], needs=["c++", "--version"]),
    ],
    targets=targets)
