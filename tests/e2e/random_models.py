"""Helpers that create small random checkpoints of Hugging Face model families with fixed seeds, and
compute transformers' results for them. Importing this module skips the test if transformers is not
installed.
"""
import os
import sys

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def make(family, folder, sizes):
    changes = dict(sizes)
    shard = changes.pop("shard", "1GB")
    bare = changes.pop("bare", False)
    torch.manual_seed(1)
    config = getattr(transformers, family + "Config")(**changes)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:  # weights of 1 and biases of 0 would hide errors
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder, max_shard_size=shard)
    if bare:  # names without the prefix, as in the original files of GPT-2 and OPT
        path = os.path.join(folder, "model.safetensors")
        tensors = {name.split(".", 1)[1]: tensor.clone() for name, tensor in load_file(path).items()}
        save_file(tensors, path, metadata={"format": "pt"})
    return model


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float().numpy()


def greedy(model, ids, count):
    """Return the next `count` greedy ids, and the margin of each over the second-best id."""
    out = model.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False, output_scores=True, return_dict_in_generate=True)
    margins = [float(best[0] - best[1]) for best in (score[0].topk(2).values for score in out.scores)]
    return out.sequences[0, len(ids):].tolist(), margins
