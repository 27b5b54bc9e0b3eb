"""Program that autotp_test.py runs as a rank: `autotp.py stock|ours DTYPE MODEL...`. Splits each
model's weights across all ranks with `init_inference`, and compares the logits and the generated
tokens to those of the unsplit model.
"""

import sys

if sys.argv[1] == "ours":
    import anyaccel.deepspeed  # noqa: F401
import torch
import transformers

import deepspeed
from deepspeed.accelerator import get_accelerator

import ranks
import small_models

MORE = 6


def compare(name, dtype):
    device = get_accelerator().current_device_name()
    given = {key: value.to(device) for key, value in small_models.inputs(name).items()}
    whole = small_models.make(name).to(dtype).to(device)
    with torch.no_grad():
        want = whole(**given).logits.float().cpu()
    elements = sum(weight.numel() for weight in whole.parameters())
    said = generate(whole, given)
    deepspeed.InferenceEngine.inference_mp_group = None
    engine = deepspeed.init_inference(small_models.make(name), tensor_parallel={"tp_size": ranks.COUNT}, dtype=dtype,
                                      replace_with_kernel_inject=False)
    with torch.no_grad():
        got = engine(**given).logits.float().cpu()
    return {"error": ((got - want).abs().max() / want.abs().max()).item(), "same tokens": generate(engine.module, given) == said,
            "share": sum(weight.numel() for weight in engine.module.parameters()) / elements,
            "logits": got.flatten()[::97].tolist(), "device": str(next(engine.module.parameters()).device)}


def generate(model, given):
    if not model.can_generate():
        return None
    ids = given["input_ids"]
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=MORE, do_sample=False, pad_token_id=0).tolist()


def main(side, dtype, *names):
    transformers.logging.set_verbosity_error()
    get_accelerator().set_device(ranks.rank())
    deepspeed.init_distributed(verbose=False)
    ranks.hand_over({name: compare(name, getattr(torch, dtype)) for name in names})


if __name__ == "__main__":
    main(*sys.argv[1:])
