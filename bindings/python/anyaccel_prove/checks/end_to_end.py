"""Trains small models with the ops, and generates text with them, on the device and on the CPU.

usage: python3 -m anyaccel_prove.checks.end_to_end train|generate [--only PATTERN]
"""

import argparse
import copy
import functools
import sys

import torch

import anyaccel

from . import models
from .protocol import DEVICE_IS_CPU, Results, Skip

STEPS = 60
# Name, model, optimizer, dtype and tolerance of the losses.
TRAINED = (("decoder-FusedAdam/float32", models.Decoder, models.adam, torch.float32, 0.02),
           ("layer-FusedLion/float32", models.Encoder, models.lion, torch.float32, 0.02),
           ("decoder-FusedAdam/bfloat16", models.Decoder, models.adam, torch.bfloat16, 0.05))


@functools.lru_cache
def trained(make, optimizer, device, dtype):
    """Return the model and the losses. Checks share the result, so they do not change the model."""
    return models.train(make, optimizer, device, STEPS, dtype)


def train_check(device, make, optimizer, dtype):
    """Train on the device. The losses must fall."""
    there = trained(make, optimizer, device, dtype)[1]
    assert all(loss == loss
               for loss in there), f"the loss is NaN after {next(i for i, loss in enumerate(there) if loss != loss)} steps"
    assert there[-1] < 0.6 * there[0], f"the loss did not fall enough: {there[0]:.3f} to {there[-1]:.3f} in {STEPS} steps"
    return f"loss {there[0]:.3f} to {there[-1]:.3f} in {STEPS} steps"


def losses_check(device, make, optimizer, dtype, tolerance):
    """Train on the CPU and the device with the same weights and data. The losses must agree."""
    if device.type == "cpu":
        raise Skip(DEVICE_IS_CPU)
    here, there = (trained(make, optimizer, where, dtype)[1] for where in (torch.device("cpu"), device))
    off = max(abs(a - b) for a, b in zip(here, there)) / here[0]  # late losses are small, and rounding errors grow
    assert off <= tolerance, (f"the losses differ from the CPU's by up to {off:.3g} of the first loss, "
                              f"expected at most {tolerance:g}")
    return f"at most {off:.2g} of the first loss from the CPU's"


def generated(dtype):
    """Generate greedily with the CPU's kernels. Return the model, the prompt, the tokens and the logits."""
    module = copy.deepcopy(trained(models.Decoder, models.adam, torch.device("cpu"), torch.float32)[0]).to(dtype)
    prompt = models.text(8)[0].tolist()
    return module, prompt, *models.generate(module, prompt, 40, torch.device("cpu"))


def formula_check():
    """Compare the CPU's logits with those of torch's operations."""
    module, prompt, tokens, here = generated(torch.float32)
    want = module.logits_after(torch.tensor([prompt + tokens[:-1]]))[0, len(prompt) - 1:]
    off = ((here - want).abs().max() / want.abs().max()).item()
    assert off <= 1e-3, f"the op's logits differ from torch's by up to {off:.3g}, expected at most 0.001"
    return f"{len(tokens)} tokens, logits at most {off:.2g} from torch's"


def generate_check(device, dtype, tolerance):
    """Generate greedily on the CPU, and compare the logits for the same tokens on the device."""
    if device.type == "cpu":
        raise Skip(DEVICE_IS_CPU)
    module, prompt, tokens, here = generated(dtype)
    _, there = models.generate(module, prompt, 40, device, follow=tokens)
    off = ((there - here).abs().max() / here.abs().max()).item()
    assert off <= tolerance, f"the logits differ from the CPU's by up to {off:.3g}, expected at most {tolerance:g}"
    margin = here.topk(2).values
    sure = margin[:, 0] - margin[:, 1] > 2 * tolerance * here.abs().max()
    assert torch.equal(there.argmax(-1)[sure], here.argmax(-1)[sure]), "the device and the CPU choose different tokens"
    return f"{len(tokens)} tokens, {int(sure.sum())} compared, logits at most {off:.2g} from the CPU's"


def main():
    parser = argparse.ArgumentParser(prog="python3 -m anyaccel_prove.checks.end_to_end", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "generate"))
    parser.add_argument("--only", metavar="PATTERN", default="*", help="run only matching checks (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(min(4, torch.get_num_threads()))
    device = torch.device(anyaccel.get_accelerator().current_device_name())
    out = Results(options.only)
    if options.what == "train":
        for name, make, optimizer, dtype, tolerance in TRAINED:
            out.run(name, train_check, device, make, optimizer, dtype)
            out.run(f"{name}/losses", losses_check, device, make, optimizer, dtype, tolerance)
    else:
        out.run("decoder/float32/formula", formula_check)
        out.run("decoder/float32", generate_check, device, torch.float32, 1e-3)
        out.run("decoder/bfloat16", generate_check, device, torch.bfloat16, 5e-2)
    return out.end()


if __name__ == "__main__":
    sys.exit(main())
