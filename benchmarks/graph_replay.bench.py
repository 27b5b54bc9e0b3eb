from runner.declare import Benchmark, Side, Target

SIZES = (64, 256, 1024, 4096, 16384, 65536)


def gain(work, n):
    return lambda numbers: numbers["eager"][f"{work}_{n}_us"] / numbers["replay"][f"{work}_{n}_us"]


def share(work, n):
    return lambda numbers: numbers["replay"][f"{work}_{n}_us"] / numbers["eager"][f"{work}_{n}_us"]


targets = []
for work, title in (("chain", "20 ops"), ("training_step", "training step")):
    for n in SIZES:
        if n < 1024:
            targets.append(Target(f"{title}, {n} elements: speedup of replay over eager", gain(work, n), at_least=1.5, unit="x"))
        else:
            targets.append(Target(f"{title}, {n} elements: replay time / eager time", share(work, n), at_most=1.05,
                                  unit="x"))
targets.append(Target("a node of the 20-op chain, 64 elements",
                      lambda numbers: numbers["replay"]["chain_64_us"] / 20, at_most=0.36, unit="us"))

benchmark = Benchmark(
    title="CPU graphs",
    about="""Microseconds that work takes on the CPU when it is run eagerly and when it is replayed
        from a graph, with bit-identical results. "chain" is 20 elementwise ops on n float32
        elements without autograd. "chain_with_grad" is the same with autograd recording in eager
        mode. "training_step" is two linear layers of width 16 with GELU, squared error, backward,
        gradient clipping and AdamW on n/16 rows.""",
    sides=[
        Side("eager", ["{build}/bin/bench_graph_replay", "eager"], env={"DS_ACCELERATOR": "cpu"}),
        Side("replay", ["{build}/bin/bench_graph_replay", "replay"], env={"DS_ACCELERATOR": "cpu"}),
    ],
    targets=targets)
