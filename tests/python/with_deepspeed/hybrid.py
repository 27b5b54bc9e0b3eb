"""One rank of hybrid_test.py: `hybrid.py stock|ours MODEL STAGE`. Training and generation by turns under DeepSpeed's hybrid engine."""

import json
import sys

if sys.argv[1] == "ours":
    import anyaccel.deepspeed  # noqa: F401
import torch

import deepspeed

import small_models
import stock

if sys.argv[1] == "stock":
    stock.build_no_shared_memory()
TURNS = 3


def generate(model, ids):
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False, pad_token_id=0).tolist()


def main(name, stage):
    model = small_models.make(name).train()
    config = {"train_batch_size": 2, "zero_optimization": {"stage": int(stage)}, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False, "hybrid_engine": {"enabled": True, "max_out_tokens": 32}}
    try:
        engine = deepspeed.initialize(model=model, config=config, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))[0]
    except ValueError as error:
        print("RESULT " + json.dumps({"refused": str(error), "error": type(error).__name__}))
        return
    ids = small_models.words().to(engine.device)
    losses, said = [], []
    for _ in range(TURNS):
        engine.train()
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
        engine.eval()
        with torch.no_grad():
            said.append(generate(engine.module, ids))
    print("RESULT " + json.dumps({"engine": type(engine).__name__, "losses": losses, "said": said}))


if __name__ == "__main__":
    main(*sys.argv[2:])
