from runner.declare import Benchmark, Side, Target


def times(key):
    """The better peer's time over ours; and what is wanted, by how much of that time are matrix products."""
    def value(numbers):
        figures = numbers["one process"]
        peer = min(figures[f"bert_{key}_ms"], figures[f"encoder_{key}_ms"])
        wanted = 1.2 if figures[f"products_{key}_ms"] < 0.7 * peer else 1.0
        return peer / figures[f"anyaccel_{key}_ms"] / wanted
    return value


benchmark = Benchmark(
    title="Transformer layer",
    about="""Milliseconds of a BERT layer of the shape of MiniLM (384 wide) and of BERT-base (768), float32, no dropout, no mask, all sides by turns in one
        process, the best of each. "bert" is Hugging Face's BertLayer with SDPA, "encoder" torch.nn.TransformerEncoderLayer (with its fast path in
        the forward pass alone), "products" the matrix products that a layer has. Targets are the better peer's time over ours, over 1.2 where
        products are under 70 % of that peer's time.""",
    sides=[Side("one process", ["{python}", "{here}/transformer.py", "0.5"], env={"DS_ACCELERATOR": "cpu", "PYTHONPATH": "{build}/python"},
                needs=["{python}", "-c", "import transformers"])],
    targets=[Target(f"{model}, {'forward' if kind == 'forward' else 'forward and backward'}, {shape}", times(f"{model}_{kind}_{shape}"), at_least=1.0, unit="of what is wanted")
             for model in ("minilm", "base") for kind in ("forward", "both")
             for shape in ("1x32", "1x128", "8x128", "1x512", "32x32", "4x512")])
