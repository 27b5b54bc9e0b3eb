from runner.declare import Benchmark, Side, Target


SHAPES = ("1x32", "1x128", "8x128", "1x512", "32x32", "4x512")
FEW = ("1x32", "8x128", "4x512")


def times(key, side="float32"):
    """The better peer's time over ours; and what is wanted, in float32 by how much of that time are matrix products."""
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
                   times(f"{model}_{kind}_{shape}", side), at_least=1.0, unit="of what is wanted")
            for model in ("minilm", "base") for kind in ("forward", "both") for shape in shapes]


benchmark = Benchmark(
    title="Transformer layer",
    about="""Milliseconds of a BERT layer of the shape of MiniLM (384 wide) and of BERT-base (768), no dropout, no mask, the same weights, all layers of
        a dtype by turns in one process, the best of each; their results are compared beforehand. "bert" is Hugging Face's BertLayer with SDPA,
        "encoder" torch.nn.TransformerEncoderLayer (with its fast path in the forward pass alone), "products" the matrix products that a layer
        has. Targets are the better peer's time over ours; in float32 over 1.2 where products are under 70 % of that peer's time.""",
    sides=[side("float32"), side("bfloat16", "bf16", ",".join(FEW))],
    targets=targets("float32", SHAPES) + targets("bfloat16", FEW))
