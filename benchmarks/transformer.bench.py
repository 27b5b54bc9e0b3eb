from runner.declare import Benchmark, Side, Target


SHAPES = ("1x32", "1x128", "8x128", "1x512", "32x32", "4x512")
FEW = ("1x32", "8x128", "4x512")


def times(key, side="float32"):
    """Return the speedup over the faster peer, divided by the required speedup.

    In float32, the required speedup is 1.2 if matrix products take less than 70 % of that peer's
    time, otherwise 1.0.
    """
    def value(numbers):
        figures = numbers[side]
        peer = min(figures[f"bert_{key}_ms"], figures[f"encoder_{key}_ms"])
        wanted = 1.2 if side == "float32" and figures[f"products_{key}_ms"] < 0.7 * peer else 1.0
        return peer / figures[f"anyaccel_{key}_ms"] / wanted
    return value


def side(name, *options):
    return Side(name, ["{python}", "{here}/transformer.py", "0.3", *options],
                env={"DS_ACCELERATOR": "cpu", "PYTHONPATH": "{build}/python"}, needs=["{python}", "-c", "import transformers"],
                ours=("anyaccel_",))


def targets(side, shapes):
    return [Target(f"{side}, {model}, {'forward' if kind == 'forward' else 'forward and backward'}, {shape}",
                   times(f"{model}_{kind}_{shape}", side), at_least=1.0, unit="of the required speedup")
            for model in ("minilm", "base") for kind in ("forward", "both") for shape in shapes]


benchmark = Benchmark(
    title="Transformer layer",
    about="""Milliseconds per call of a BERT layer in the shapes of MiniLM (width 384) and BERT-base
        (width 768), without dropout or a mask, and with the same weights. All layers of a dtype
        alternate in one process, and the fastest call is reported. Their results are compared
        beforehand. "bert" is Hugging Face's BertLayer with SDPA. "encoder" is
        torch.nn.TransformerEncoderLayer, which uses its fast path only in the forward benchmark.
        "products" is the layer's matrix products alone. Targets are the speedup over the faster
        peer, relative to the required speedup: 1.2 in float32 if products take less than 70 % of
        that peer's time, otherwise 1.""",
    sides=[side("float32"), side("bfloat16", "bf16", ",".join(FEW))],
    targets=targets("float32", SHAPES) + targets("bfloat16", FEW))
