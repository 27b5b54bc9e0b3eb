from runner.declare import Benchmark, Side, Target

PARTS = ("rms_norm", "add_rms_norm", "swiglu", "rotary", "attention", "cross_entropy")


def speedup(side, part):
    # The part is missing if torch has no fast matrix products for it on this processor.
    return lambda n: n[side].get(f"torch_{part}_us", 0) / n[side][f"anyaccel_{part}_us"] if f"anyaccel_{part}_us" in n[side] else 1.0


def side(name, dtype):
    return Side(name, ["{python}", "{here}/training_parts.py", dtype],
                env={"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "2", "PYTHONPATH": "{build}/python"}, ours=("anyaccel_",))


benchmark = Benchmark(
    title="Parts of a fine-tuning step",
    about="""Microseconds for the forward and the backward pass of a decoder's parts, for 4 sequences
        of 512 tokens in the shape of SmolLM2-135M, with 2 threads. "torch" is the same computation
        as in transformers. `cross_entropy` includes the product with the head of 49152 tokens. It is
        omitted in bfloat16 on CPUs without AVX-512, where torch multiplies element by element.""",
    sides=[side("float32", "fp32"), side("bfloat16", "bf16")],
    targets=[Target(f"{name}: {part}, speedup over torch", speedup(name, part), at_least=1.0, unit="times")
             for name in ("float32", "bfloat16") for part in PARTS])
