import os

from runner.declare import Benchmark, Side, Target

CORES = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]]
ENV = {"OMP_NUM_THREADS": "2", "DS_ACCELERATOR": "cpu"}
KINDS = {"bf16": "bf16", "int8": "Q8_0", "int4": "Q4_0"}
OURS = ["{build}/bin/bench_generate"]
PEER = ["{python}", "{here}/generate.py"]
LLAMA = ["{python}", "-c", "import gguf, llama_cpp"]
TRANSFORMERS = ["{python}", "-c", "import transformers"]
DEEPSPEED = ["{python}", "-c", "import deepspeed, transformers"]


def of_ranks(command):
    """The same launcher and cores for both: two ranks with a core each."""
    return ["{build}/bin/anyaccel", "launch", "-q", "--num_accelerators", "2", "--bind_cores_to_rank", "--bind_core_list", ",".join(CORES), *command]


def over(number, ours, theirs):
    return lambda n: n[ours][number] / n[theirs][number]


def over_better(number, ours, *theirs):
    return lambda n: n[ours][number] / max(n[name][number] for name in theirs)


def over_llama_or_reader(n):
    """1 and more: as fast as llama.cpp, or at 0.95 of what only reading the weights takes."""
    ours, reader = n["anyaccel bf16"]["decode_tokens_s"], max(n[f"reader, {count} threads"]["passes_s"] for count in (1, 2))
    return max(ours / n["llama.cpp bf16"]["decode_tokens_s"], ours / (0.95 * reader))


def decode_targets(model):
    number, small = "decode_tokens_s", model.startswith("SmolLM2")
    yield Target("decode bf16 over transformers", over(number, "anyaccel bf16", "transformers bf16"), at_least=4 if small else 2.5, unit="times")
    if small:
        yield Target("decode bf16 over llama.cpp's", over(number, "anyaccel bf16", "llama.cpp bf16"), at_least=1.2, unit="times")
    else:
        yield Target("decode bf16 over llama.cpp's, or over 0.95 of the fastest reader", over_llama_or_reader, at_least=1.0, unit="times")
    for kind, limit in (("int8", 1.2 if small else 1.1), ("int4", 1.2)):
        yield Target(f"decode {kind} over llama.cpp's {KINDS[kind]}", over(number, f"anyaccel {kind}", f"llama.cpp {KINDS[kind]}"),
                     at_least=limit, unit="times")


def all_targets(model):
    yield from decode_targets(model)
    yield Target("prefill bf16 over the better of transformers and llama.cpp",
                 over_better("prefill_tokens_s", "anyaccel bf16", "transformers bf16", "llama.cpp bf16"), at_least=1.0, unit="times")
    for kind in ("int8", "int4"):
        yield Target(f"prefill {kind} over llama.cpp's {KINDS[kind]}",
                     over("prefill_tokens_s", f"anyaccel {kind}", f"llama.cpp {KINDS[kind]}"), at_least=1.0, unit="times")
    yield Target("decode of 2 ranks x 1 core over 1 rank x 2 threads", over("decode_tokens_s", "anyaccel bf16, 2 ranks", "anyaccel bf16"),
                 at_least=0.95, unit="times")
    yield Target("decode of 2 ranks over DeepSpeed AutoTP's", over("decode_tokens_s", "anyaccel bf16, 2 ranks", "DeepSpeed AutoTP bf16, 2 ranks"),
                 at_least=4, unit="times")


def benchmark_of(model, **more):
    folder = "{build}/benchmarks/models/" + model
    # Sides that are compared run next to each other, because the memory of a virtual machine may be half as fast for minutes.
    sides = [
        Side("DeepSpeed AutoTP bf16, 2 ranks", of_ranks([*PEER, "deepspeed", folder]), env=ENV | {"OMP_NUM_THREADS": "1"}, needs=DEEPSPEED,
             ours=()),
        Side("anyaccel bf16, 2 ranks", of_ranks([*OURS, folder, "bf16", "parallel"]), env=ENV | {"OMP_NUM_THREADS": "1"}),
    ]
    for kind, theirs in KINDS.items():
        sides.append(Side(f"anyaccel {kind}", [*OURS, folder, kind], env=ENV))
        sides.append(Side(f"llama.cpp {theirs}", [*PEER, "llama", folder, theirs], env=ENV, needs=LLAMA, ours=()))
        if kind == "bf16":
            sides += (Side(f"reader, {count} threads", ["{build}/bin/bench_read_memory", folder + "/model.safetensors", str(count)], ours=())
                      for count in (2, 1))
    sides.append(Side("transformers bf16", [*PEER, "transformers", folder], env=ENV, needs=TRANSFORMERS, ours=()))
    return Benchmark(
        title=f"Generating with {model}",
        about=f"""Tokens per second of a prompt of 256 tokens, and of the 32 that follow it one by one, on two cores; random weights of the public shape
            of {model}. transformers: a plain loop over model and DynamicCache, SDPA. llama.cpp: its C interface, built for this processor, the same
            weights as GGUF, quantized by its own quantizer. DeepSpeed: AutoTP through init_inference(). reader: a program that only reads the
            file's bytes in large pages, once a pass. No weights are in the page cache when this begins: each program reads its own. logits_off is the distance of the logits after the prompt from transformers' in float32, over their
            length: what shows that all do the same work, and what integers cost.""",
        prepare=[*PEER, "prepare", folder], sides=sides, targets=list(all_targets(model)), **more)


def first_token(model):
    folder = "{build}/benchmarks/models/" + model
    return Benchmark(
        title=f"Load to first token, {model}",
        about="""Milliseconds from the call that loads the model to its first token after a prompt of one, in a process that has loaded its libraries;
            the files are in the page cache.""",
        prepare=[*PEER, "prepare", folder],
        sides=[Side("anyaccel bf16", [*OURS, folder, "bf16", "first"], env=ENV),
               Side("llama.cpp bf16", [*PEER, "llama", folder, "bf16", "first"], env=ENV, needs=LLAMA, ours=())],
        targets=[Target("llama.cpp's time over ours", over("first_token_ms", "llama.cpp bf16", "anyaccel bf16"), at_least=1.0, unit="times")])


benchmarks = {
    "generate_135m": benchmark_of("SmolLM2-135M"),
    "generate_1b": benchmark_of("TinyLlama-1.1B", rounds=5, few_rounds="a round takes more than a minute.", warm_up=False),
    "first_token_135m": first_token("SmolLM2-135M"),
    "first_token_1b": first_token("TinyLlama-1.1B"),
}
