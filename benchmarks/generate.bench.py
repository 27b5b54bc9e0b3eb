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
    """Start two ranks with one core each. AnyAccel and DeepSpeed use the same launcher and cores.
    """
    return ["{build}/bin/anyaccel", "launch", "-q", "--num_accelerators", "2", "--bind_cores_to_rank", "--bind_core_list", ",".join(CORES), *command]


def over(number, ours, theirs):
    return lambda n: n[ours][number] / n[theirs][number]


def over_better(number, ours, *theirs):
    return lambda n: n[ours][number] / max(n[name][number] for name in theirs)


def over_llama_or_reader(n):
    """Return a ratio that is at least 1 if AnyAccel is as fast as llama.cpp or reaches 0.95 times
    the speed of a program that only reads the weights.
    """
    ours, reader = n["anyaccel bf16"]["decode_tokens_s"], max(n[f"reader, {count} threads"]["passes_s"] for count in (1, 2))
    return max(ours / n["llama.cpp bf16"]["decode_tokens_s"], ours / (0.95 * reader))


def decode_targets(model):
    number, small = "decode_tokens_s", model.startswith("SmolLM2")
    yield Target("decode bf16: speedup over transformers", over(number, "anyaccel bf16", "transformers bf16"), at_least=4 if small else 2.5, unit="times")
    if small:
        yield Target("decode bf16: speedup over llama.cpp", over(number, "anyaccel bf16", "llama.cpp bf16"), at_least=1.2, unit="times")
    else:
        yield Target("decode bf16: relative to llama.cpp or to 0.95 of the fastest reader", over_llama_or_reader, at_least=1.0, unit="times")
    for kind, limit in (("int8", 1.2 if small else 1.1), ("int4", 1.2)):
        yield Target(f"decode {kind}: speedup over llama.cpp {KINDS[kind]}", over(number, f"anyaccel {kind}", f"llama.cpp {KINDS[kind]}"),
                     at_least=limit, unit="times")


def all_targets(model):
    yield from decode_targets(model)
    yield Target("prefill bf16: speedup over the better of transformers and llama.cpp",
                 over_better("prefill_tokens_s", "anyaccel bf16", "transformers bf16", "llama.cpp bf16"), at_least=1.0, unit="times")
    for kind in ("int8", "int4"):
        yield Target(f"prefill {kind}: speedup over llama.cpp {KINDS[kind]}",
                     over("prefill_tokens_s", f"anyaccel {kind}", f"llama.cpp {KINDS[kind]}"), at_least=1.0, unit="times")
    yield Target("decode, 2 ranks x 1 core: relative to 1 rank x 2 threads", over("decode_tokens_s", "anyaccel bf16, 2 ranks", "anyaccel bf16"),
                 at_least=0.95, unit="times")
    yield Target("decode, 2 ranks: speedup over DeepSpeed AutoTP", over("decode_tokens_s", "anyaccel bf16, 2 ranks", "DeepSpeed AutoTP bf16, 2 ranks"),
                 at_least=4, unit="times")


def benchmark_of(model, **more):
    folder = "{build}/benchmarks/models/" + model
    # Programs that are compared with each other are adjacent in this list, because the memory of a
    # virtual machine can run at half its usual speed for minutes.
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
        about=f"""Tokens per second for a prompt of 256 tokens (prefill) and for the next 32 tokens
            one by one (decode), on two cores, with random weights in the published shape of
            {model}. transformers: a plain loop over the model and a DynamicCache, with SDPA.
            llama.cpp: its C interface, built for this processor, with the same weights as GGUF,
            quantized by its own quantizer. DeepSpeed: AutoTP through init_inference(). reader: a
            program that only reads the file's bytes from large pages, once per pass. The page cache
            holds no weights at the start, so each program reads its own. logits_off is the distance
            between the logits after the prompt and transformers' in float32, divided by the norm of
            transformers'. It shows that all programs do the same work, and how much precision
            quantization costs.""",
        prepare=[*PEER, "prepare", folder], sides=sides, targets=list(all_targets(model)), **more)


def first_token(model):
    folder = "{build}/benchmarks/models/" + model
    return Benchmark(
        title=f"Load to first token, {model}",
        about="""Milliseconds from the call that loads the model to the first token after a prompt of one
            token, in a process that has loaded its libraries. The files are in the page cache.""",
        prepare=[*PEER, "prepare", folder],
        sides=[Side("anyaccel bf16", [*OURS, folder, "bf16", "first"], env=ENV),
               Side("llama.cpp bf16", [*PEER, "llama", folder, "bf16", "first"], env=ENV, needs=LLAMA, ours=())],
        targets=[Target("speedup over llama.cpp", over("first_token_ms", "llama.cpp bf16", "anyaccel bf16"), at_least=1.0, unit="times")])


benchmarks = {
    "generate_135m": benchmark_of("SmolLM2-135M"),
    "generate_1b": benchmark_of("TinyLlama-1.1B", rounds=5, few_rounds="a round takes more than a minute.", warm_up=False),
    "first_token_135m": first_token("SmolLM2-135M"),
    "first_token_1b": first_token("TinyLlama-1.1B"),
}
