"""Runs the generation benchmark with one library: greedily continues a fixed prompt of 256 token ids.

usage: generate.py transformers|deepspeed MODEL
       generate.py llama MODEL bf16|Q8_0|Q4_0 [first]
       generate.py prepare MODEL    create the folder MODEL, whose name is in SHAPES, unless it exists

Prints tokens/s for prefill and decode (medians of 3) and the relative distance of the logits after
the prompt from transformers' in float32. With `first`, prints the milliseconds from the call that
loads the model to its first token.
"""
import json
import os
import pathlib
import statistics
import sys
import time

PROMPT, NEW = 256, 32
THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
SHAPES = {
    "SmolLM2-135M": dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                         num_key_value_heads=3, max_position_embeddings=8192, rope_theta=100000.0, rms_norm_eps=1e-5, tie_word_embeddings=True),
    "TinyLlama-1.1B": dict(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                           num_key_value_heads=4, max_position_embeddings=2048, rope_theta=10000.0, rms_norm_eps=1e-5,
                           tie_word_embeddings=False),
}


def prompt_of(vocabulary):
    return [(i * 7919 + 13) % vocabulary for i in range(PROMPT)]


def off(folder, logits):
    import numpy
    want = numpy.fromfile(folder / "logits.f32", dtype="float32")
    return float(numpy.linalg.norm(numpy.asarray(logits, dtype="float32").reshape(-1) - want) / numpy.linalg.norm(want))


def timed(start, step):
    """Time start(), which processes the prompt and returns the next token, and step(token), which
    returns the token after it.
    """
    prefill, decode = [], []
    for i in range(4):
        begin = time.perf_counter()
        token = start()
        between = time.perf_counter()
        for _ in range(NEW):
            token = step(token)
        if i:  # the first pass warms up
            prefill.append(PROMPT / (between - begin))
            decode.append(NEW / (time.perf_counter() - between))
    return {"prefill_tokens_s": statistics.median(prefill), "decode_tokens_s": statistics.median(decode)}


def make_model(folder):
    import torch
    import transformers
    shape = dict(SHAPES[folder.name])
    theta = shape.pop("rope_theta")
    config = transformers.LlamaConfig(**shape, rope_parameters={"rope_type": "default", "rope_theta": theta}, bos_token_id=None, eos_token_id=None)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
    model.save_pretrained(folder)
    with torch.inference_mode():
        ids = torch.tensor([prompt_of(config.vocab_size)])
        model.float()(input_ids=ids, logits_to_keep=1).logits.numpy().astype("float32").tofile(folder / "logits.f32")


def gguf_name(name):
    parts = name.split(".")
    whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    if name in whole:
        return whole[name]
    kinds = {"input_layernorm": "attn_norm", "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
             "post_attention_layernorm": "ffn_norm", "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}
    return f"blk.{parts[2]}.{kinds[parts[-2]]}.weight"


def make_gguf(folder):
    """Write the same weights for llama.cpp, with the rotary dimensions in its order, and quantize
    them with its quantizer.
    """
    import ctypes

    import gguf
    import llama_cpp
    import numpy
    import torch
    from safetensors.torch import load_file
    shape = SHAPES[folder.name]
    writer = gguf.GGUFWriter(str(folder / "bf16.gguf"), "llama")
    writer.add_block_count(shape["num_hidden_layers"])
    writer.add_context_length(shape["max_position_embeddings"])
    writer.add_embedding_length(shape["hidden_size"])
    writer.add_feed_forward_length(shape["intermediate_size"])
    writer.add_head_count(shape["num_attention_heads"])
    writer.add_head_count_kv(shape["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(shape["rms_norm_eps"])
    writer.add_rope_freq_base(shape["rope_theta"])
    writer.add_rope_dimension_count(shape["hidden_size"] // shape["num_attention_heads"])
    writer.add_vocab_size(shape["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    for name, tensor in load_file(folder / "model.safetensors").items():
        for part, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
            if part in name:
                rows, columns = tensor.shape
                tensor = tensor.view(shape[heads], 2, rows // shape[heads] // 2, columns).transpose(1, 2).reshape(rows, columns)
        if tensor.dim() == 1:
            writer.add_tensor(gguf_name(name), tensor.float().numpy())
        else:
            words = tensor.contiguous().view(torch.uint16).numpy().view(numpy.uint8)
            writer.add_tensor(gguf_name(name), words, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    llama_cpp.llama_backend_init()
    for kind, number in (("Q8_0", llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0), ("Q4_0", llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0)):
        parameters = llama_cpp.llama_model_quantize_default_params()
        parameters.ftype = number
        paths = [str(folder / f"{name}.gguf").encode() for name in ("bf16", kind)]
        if llama_cpp.llama_model_quantize(*paths, ctypes.byref(parameters)):
            sys.exit(f"generate.py: llama.cpp cannot quantize to {kind}")


def drop_from_memory(folder):
    """Drop the weights from the page cache.

    The size of the pages that cache the file strongly affects the speed of all later readers. Each
    program must therefore bring the weights into the page cache itself.
    """
    for path in (*folder.glob("*.safetensors"), *folder.glob("*.gguf")):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def prepare(folder):
    make_all(folder)
    drop_from_memory(folder)


def make_all(folder):
    done = folder / "done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make_model(folder)
        done.touch()
    try:
        import gguf  # noqa: F401
        import llama_cpp  # noqa: F401
    except ImportError:
        return
    if not (folder / "gguf_done").exists():
        make_gguf(folder)
        (folder / "gguf_done").touch()


def hugging_face(folder, wrap):
    """Time a plain decoding loop that calls the model with a KV cache. It is faster than
    generate(), which does more work per token.
    """
    import torch
    import transformers
    torch.set_num_threads(THREADS)
    model = wrap(transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").eval())
    ids = torch.tensor([prompt_of(SHAPES[folder.name]["vocab_size"])])
    cache = None

    def run(tokens):
        logits = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]
        return logits

    def start():
        nonlocal cache
        cache = transformers.DynamicCache()
        return int(run(ids).argmax())

    with torch.inference_mode():
        numbers = timed(start, lambda token: int(run(torch.tensor([[token]])).argmax()))
        cache = transformers.DynamicCache()
        return numbers | {"logits_off": off(folder, run(ids).float().numpy())}


def of_transformers(folder):
    return hugging_face(folder, lambda model: model)


def of_deepspeed(folder):
    import deepspeed
    import torch
    ranks = int(os.environ["WORLD_SIZE"])
    deepspeed.init_distributed()
    return hugging_face(folder, lambda model: deepspeed.init_inference(
        model, tensor_parallel={"tp_size": ranks}, dtype=torch.bfloat16, replace_with_kernel_inject=False))


class Llama:
    """Runs llama.cpp through its C interface, with the same calls per token as llama.cpp's own
    programs.
    """

    def __init__(self, path):
        import ctypes

        import llama_cpp
        self.c, self.ctypes = llama_cpp, ctypes
        quiet = llama_cpp.llama_log_callback(lambda *_: None)
        self.quiet = quiet  # kept alive, because the library calls it until the process exits
        llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = PROMPT + NEW + 32
        parameters.n_batch = parameters.n_ubatch = PROMPT
        parameters.n_threads = parameters.n_threads_batch = THREADS
        self.context = self.model and llama_cpp.llama_init_from_model(self.model, parameters)
        if not self.context:
            sys.exit(f"generate.py: llama.cpp cannot load {path}")
        self.vocabulary = SHAPES[path.parent.name]["vocab_size"]

    def logits(self, ids):
        import numpy
        tokens = (self.c.llama_token * len(ids))(*ids)
        if self.c.llama_decode(self.context, self.c.llama_batch_get_one(tokens, len(ids))):
            sys.exit("generate.py: llama_decode() failed")
        return numpy.ctypeslib.as_array(self.c.llama_get_logits_ith(self.context, -1), shape=(self.vocabulary,))

    def forget(self):
        self.c.llama_memory_clear(self.c.llama_get_memory(self.context), True)


def of_llama(folder, kind, first=""):
    import llama_cpp  # noqa: F401  # imported here so that the import is not timed
    import numpy  # noqa: F401
    begin = time.perf_counter()
    llama = Llama(folder / f"{kind}.gguf")
    if first:
        int(llama.logits([1]).argmax())
        return {"first_token_ms": (time.perf_counter() - begin) * 1e3}
    ids = prompt_of(llama.vocabulary)

    def start():
        llama.forget()
        return int(llama.logits(ids).argmax())

    numbers = timed(start, lambda token: int(llama.logits([token]).argmax()))
    llama.forget()
    return numbers | {"logits_off": off(folder, llama.logits(ids))}


def main():
    side, folder, *rest = sys.argv[1:]
    folder = pathlib.Path(folder)
    if side == "prepare":
        prepare(folder)
        return
    numbers = {"transformers": of_transformers, "deepspeed": of_deepspeed, "llama": of_llama}[side](folder, *rest)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(numbers))


if __name__ == "__main__":
    main()
