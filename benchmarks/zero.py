"""Fine-tunes a model with a sharded optimizer, with AnyAccel or DeepSpeed, and prints tokens per second
and the peak memory of the largest rank. The first step warms up.

usage: zero.py prepare MODEL...                    create these folders, their tokenizers and the data
       zero.py ours MODEL RANKS BATCH STEPS [options of anyaccel train]
       zero.py deepspeed MODEL RANKS BATCH STEPS   ZeRO stage 1 with DeepSpeed's CPUAdam

BATCH counts the rows of all ranks. Rows have CONTEXT tokens. OMP_NUM_THREADS is the number of threads of
each rank.
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

CONTEXT = int(os.environ.get("CONTEXT", "512"))
BIN = pathlib.Path(os.environ.get("ANYACCEL_BIN", "build/release/bin"))


def prepare(folder):
    """Create the model unless it exists, with a tokenizer that makes one token of each byte."""
    from generate import make_model
    if not (folder / "model.safetensors").exists():
        make_model(folder)
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "data.txt").write_text("".join(f"{i * 7919 % 10007} ships and {i * 104729 % 9973} maps\n" for i in range(20000)), encoding="utf-8")


def ours(folder, ranks, batch, steps, *options):
    launch = ["launch", "-q", "--num_accelerators", str(ranks), "--bind_cores_to_rank", str(BIN / "anyaccel")] if ranks > 1 else []
    with tempfile.TemporaryDirectory(dir=folder.parent) as out:
        command = [str(BIN / "anyaccel"), *launch, "train", "--model", str(folder), "--data", str(folder / "data.txt"), "--out", out, "--json",
                   "--context", str(CONTEXT), "--batch-size", str(batch), "--gradient-accumulation-steps", "1", "--steps", str(steps + 1),
                   "--lr", "1e-4", "--schedule", "constant", "--warmup", "0", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    seconds = lines[steps]["seconds"] - lines[0]["seconds"]
    return {"tokens_per_second": steps * batch * CONTEXT / seconds, "loss": lines[-1]["losses"][-1],
            "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}


def deepspeed_rank(folder, ranks, batch, steps):
    import torch
    import transformers

    import deepspeed
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    config = {"train_batch_size": batch, "train_micro_batch_size_per_gpu": batch // ranks, "gradient_clipping": 1.0,
              "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.0}}}
    deepspeed.init_distributed("gloo")
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]
    data = torch.frombuffer(bytearray((folder / "data.txt").read_bytes()), dtype=torch.uint8).long()
    losses, begin = [], 0.0
    for step in range(steps + 1):
        if step == 1:
            begin = time.perf_counter()
        first = (step * batch + engine.global_rank * (batch // ranks)) * CONTEXT
        ids = data[first:first + batch // ranks * CONTEXT].view(-1, CONTEXT)
        loss = engine(input_ids=ids, labels=ids, use_cache=False).loss
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    seconds = time.perf_counter() - begin
    if engine.global_rank == 0:
        print(json.dumps({"tokens_per_second": steps * batch * CONTEXT / seconds, "loss": losses[-1],
                          "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
    torch.distributed.barrier()


def deepspeed(folder, ranks, batch, steps):
    """Start one process per rank, each on its own core."""
    port = str(20000 + os.getpid() % 20000)
    cores = sorted(os.sched_getaffinity(0))
    processes = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        command = ["taskset", "-c", str(cores[rank % len(cores)]), sys.executable, __file__, "rank", str(folder), str(ranks), str(batch), str(steps)]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    results = [process.communicate() for process in processes]
    if any(process.returncode != 0 for process in processes):
        sys.exit(results[0][1] + results[-1][1])
    return json.loads([line for line in results[0][0].splitlines() if line.startswith("{")][-1])


def main():
    what = sys.argv[1]
    if what == "prepare":
        for folder in sys.argv[2:]:
            prepare(pathlib.Path(folder))
        return
    folder, numbers, options = pathlib.Path(sys.argv[2]), [int(text) for text in sys.argv[3:6]], sys.argv[6:]
    if what == "rank":
        deepspeed_rank(folder, *numbers)
    else:
        print(json.dumps({"ours": ours, "deepspeed": deepspeed}[what](folder, *numbers, *options)))


if __name__ == "__main__":
    main()
