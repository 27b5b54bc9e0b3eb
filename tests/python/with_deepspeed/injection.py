"""Program that injection_test.py runs: `injection.py DTYPE RANKS MODEL...`. Injects DeepSpeed's
inference layers into each model with `init_inference`, and compares the result to the model itself:
the logits, and the tokens generated for two rows, for rows padded on the left, and for prompts of
one token.
"""

import json
import sys

import anyaccel.deepspeed  # noqa: F401
import torch
import transformers

import deepspeed
from deepspeed.accelerator import get_accelerator
from deepspeed.model_implementations.transformers.ds_transformer import DeepSpeedTransformerInference

import ranks
import small_models

MORE = 6


def compare(name, dtype, count):
    device = get_accelerator().current_device_name()
    options = small_models.INJECTED.get(name, {})
    ids = small_models.words().to(device)
    whole = small_models.make(name, **options).to(dtype).to(device)
    exact = small_models.make(name, **options).double()
    with torch.no_grad():
        want, plain = exact(input_ids=ids.cpu()).logits, whole(input_ids=ids).logits.double().cpu()
    said = generate(whole, ids)
    deepspeed.InferenceEngine.inference_mp_group = None
    engine = deepspeed.init_inference(small_models.make(name, **options), tensor_parallel={"tp_size": count}, dtype=dtype,
                                      replace_with_kernel_inject=True, max_out_tokens=48)
    layers = sum(isinstance(module, DeepSpeedTransformerInference) for module in engine.module.modules())
    with torch.no_grad():
        got = engine(input_ids=ids).logits.double().cpu()
    result = {"layers": layers, "error": error(got, want), "plain error": error(plain, want), "same tokens": generate(engine.module, ids) == said,
              "words": said, "logits": got.flatten()[::97].tolist(), "device": str(next(engine.module.parameters()).device)}
    engine.destroy()
    return result


def error(got, want):
    return ((got - want).abs().max() / want.abs().max()).item()


def generate(model, ids):
    if not model.can_generate():
        return None
    mask = torch.ones_like(ids)
    padded = mask.clone()
    padded[0, :4] = 0
    said = []
    for given, seen in ((ids, mask), (ids.masked_fill(padded == 0, 0), padded), (ids[:, :1], mask[:, :1]), (ids.repeat(2, 1), mask.repeat(2, 1))):
        said.append(model.generate(given, attention_mask=seen, max_new_tokens=MORE, do_sample=False, pad_token_id=0).tolist())
    return said


def error_of_several_tokens(name):
    """Continue a cached sequence with several tokens, as a chat does. Return the error."""
    engine = deepspeed.init_inference(small_models.make(name, **small_models.INJECTED.get(name, {})), dtype=torch.float32, replace_with_kernel_inject=True)
    with torch.no_grad():
        past = engine(input_ids=small_models.words(), use_cache=True).past_key_values
        try:
            engine(input_ids=small_models.words(length=3), past_key_values=past, use_cache=True)
        except anyaccel.Error as raised:
            return str(raised)
    return None


def refused(name, **options):
    try:
        deepspeed.init_inference(small_models.make(name, **options), dtype=torch.float32, replace_with_kernel_inject=True)
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
    return None


def main(dtype, count, *names):
    transformers.logging.set_verbosity_error()
    count = int(count)
    if names[0] == "refused":
        print("RESULT " + json.dumps({"bloom": refused("bloom"), "shared": refused("llama", intermediate_size=128), "behind": error_of_several_tokens("gpt2")}))
        return
    if count > 1:
        get_accelerator().set_device(ranks.rank())
        deepspeed.init_distributed(verbose=False)
    results = {name: compare(name, getattr(torch, dtype), count) for name in names}
    if count > 1:
        ranks.hand_over(results)
    else:
        print("RESULT " + json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
