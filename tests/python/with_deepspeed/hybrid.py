"""Program that hybrid_test.py runs: `hybrid.py stock|ours|injected MODEL STAGE`. Alternates
training and generation in DeepSpeed's hybrid engine. `injected` is like `ours`, with a model whose
layers DeepSpeed can replace with its inference layers.
"""

import json
import sys

SIDE = sys.argv[1]
if SIDE in ("ours", "injected"):
    import anyaccel.deepspeed  # noqa: F401
import torch

import deepspeed

import small_models
import stock

if SIDE == "stock":
    stock.build_no_shared_memory()
TURNS = 3


def generate(model, ids):
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False, pad_token_id=0).tolist()


def main(name, stage):
    options = small_models.INJECTED.get(name, {}) if SIDE == "injected" else {}
    model = small_models.make(name, **options).train()
    config = {"train_batch_size": 2, "zero_optimization": {"stage": int(stage)}, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False, "hybrid_engine": {"enabled": True, "max_out_tokens": 32}}
    try:
        engine = deepspeed.initialize(model=model, config=config, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))[0]
    except (ValueError, RuntimeError) as error:
        print("RESULT " + json.dumps({"refused": str(error), "error": type(error).__name__}))
        return
    ids = small_models.words().to(engine.device)
    losses, said, own = [], [], []
    for _ in range(TURNS):
        engine.train()
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
        engine.eval()
        with torch.no_grad():
            said.append(generate(engine.module, ids))
        if SIDE == "injected":  # the tokens that the model's own layers generate with these weights
            plain = small_models.make(name, **options)
            plain.load_state_dict(engine.module.state_dict())
            own.append(generate(plain, ids.cpu()))
    print("RESULT " + json.dumps({"engine": type(engine).__name__, "losses": losses, "said": said, "own": own}))


if __name__ == "__main__":
    main(*sys.argv[2:])
