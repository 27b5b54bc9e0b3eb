"""Trains on LibTorch's C++ headers for a minute and prints the bits per byte on held-out
headers."""
import argparse
import json
import math
import pathlib
import resource
import shutil
import subprocess
import time

import torch
import transformers

EXTENSIONS = {".h", ".hpp", ".cuh", ".hxx"}
HELD_OUT_BYTES = 300_000


def headers():
    """Yield (path, name, text, whether it is hand-written) of each header.

    src/llm/data/corpus.cpp uses the same rule to decide which headers are hand-written.
    """
    folder = pathlib.Path(torch.__file__).parent / "include"
    for path in sorted(path for path in folder.rglob("*") if path.suffix in EXTENSIONS):
        text = path.read_bytes()
        name = path.relative_to(folder).as_posix()
        generated = ("enerated" in name or name == "ATen/RegistrationDeclarations.h" or b"@generated" in text[:1024]
                     or b"enerated by" in text[:1024])
        yield path, name, text, not generated


def make_texts(folder):
    """Create the folders `written` and `all` to train on, and return the held-out texts."""
    held_out, seen = [], set()
    shutil.rmtree(folder, ignore_errors=True)
    for i, (path, name, text, written) in enumerate(headers()):
        copy, _ = text in seen, seen.add(text)
        if i % 10 == 5:
            if written and not copy:
                held_out.append(text)
            continue
        for kind, wanted in (("all", True), ("written", written and not copy)):
            if wanted:
                (folder / kind / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / kind / name).symlink_to(path)
    return held_out


def stretches(texts):
    """Yield the middle of each text, starting at the beginning of a line, with about HELD_OUT_BYTES
    in total.
    """
    length = HELD_OUT_BYTES // len(texts) + 1
    for text in texts:
        begin = text.find(b"\n", max(0, (len(text) - length) // 2)) + 1
        piece = text[begin:begin + length].decode("utf-8", "ignore")
        if piece:
            yield piece


@torch.no_grad()
def bits_per_byte(out, texts):
    """Return the bits per byte of the texts.

    Consecutive windows of a passage overlap by half. In all windows except the first, only the
    second half counts.
    """
    model = transformers.AutoModelForCausalLM.from_pretrained(out).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    context = model.config.max_position_embeddings
    nats = count = 0
    for text in stretches(texts):
        ids = [tokenizer.eos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]
        count += len(text.encode())
        for begin in range(0, len(ids) - 1, context // 2):
            window = torch.tensor([ids[begin:begin + context + 1]])
            losses = torch.nn.functional.cross_entropy(model(window[:, :-1]).logits[0].float(), window[0, 1:], reduction="none")
            nats += losses[0 if begin == 0 else context - context // 2:].sum().item()
            if begin + context + 1 >= len(ids):
                break
    return nats / count / math.log(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anyaccel", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--text", choices=("written", "all"), required=True)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--steps", type=int, help="train for this number of steps instead of --minutes; useful on a shared machine")
    parser.add_argument("options", nargs="*", help="options for `anyaccel train`, after --")
    args = parser.parse_args()
    held_out = make_texts(args.folder / "text")
    out = args.folder / "model"
    budget = ["--steps", str(args.steps)] if args.steps else ["--minutes", str(args.minutes)]
    begin = time.perf_counter()
    done = subprocess.run([args.anyaccel, "train", "--json", "--data", args.folder / "text" / args.text, "--out", out, *budget, *args.options],
                          stdout=subprocess.PIPE, check=True)
    total = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps({"bits_per_byte": bits_per_byte(out, held_out), "steps": result["steps"], "train_s": result["seconds"],
                      "total_s": total, "processor_s": used.ru_utime + used.ru_stime, "tokens_per_second": result["tokens_per_second"]}))


if __name__ == "__main__":
    main()
