"""Program that autotp_test.py runs as a rank: `autotp_train.py stock|ours MODEL` trains a model
with `tensor_parallel.autotp_size`, with its layers split across all ranks.
"""

import sys

if sys.argv[1] == "ours":
    import anyaccel.deepspeed  # noqa: F401

import deepspeed
from deepspeed.accelerator import get_accelerator

import ranks
import small_models
import stock

if sys.argv[1] == "stock":
    stock.build_no_shared_memory()
STEPS = 6


def steps(model, step):
    ids = small_models.words(rows=4).to(model.device)
    losses = []
    for _ in range(STEPS):
        loss = model(input_ids=ids, labels=ids).loss
        step(loss)
        losses.append(loss.item())
    return losses


def main(name):
    get_accelerator().set_device(ranks.rank())
    deepspeed.init_distributed(verbose=False)
    model = small_models.make(name).train()
    elements = sum(weight.numel() for weight in model.parameters())
    config = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "zero_allow_untested_optimizer": True,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01, "torch_adam": True}},
              "tensor_parallel": {"autotp_size": ranks.COUNT}, "zero_optimization": {"stage": 0}}
    engine = deepspeed.initialize(model=model, config=config)[0]

    def theirs(loss):
        engine.backward(loss)
        engine.step()

    got = steps(engine.module, theirs)
    ranks.hand_over({"losses": got, "share": sum(weight.numel() for weight in engine.module.parameters()) / elements})


if __name__ == "__main__":
    main(*sys.argv[2:])
