"""Trains small models with the ops, and generates text with them, on the device and on the CPU.

usage: python3 -m anyaccel_prove.checks.end_to_end train|generate [--only PATTERN]
"""

import argparse
import sys

import torch

import anyaccel

from . import models
from .protocol import Results

STEPS = 60


def train_check(accelerator, make, optimizer, dtype, tolerance):
    """Train on the CPU and the device with the same weights and data. The losses must fall and agree."""
    device = torch.device(accelerator.current_device_name())
    here = models.train(make, optimizer, torch.device("cpu"), STEPS, dtype)[1]
    there = models.train(make, optimizer, device, STEPS, dtype)[1]
    off = max(abs(a - b) for a, b in zip(here, there)) / here[0]  # late losses are small, and rounding errors grow
    assert all(loss == loss
               for loss in there), f"the loss is NaN after {next(i for i, loss in enumerate(there) if loss != loss)} steps"
    assert there[-1] < 0.6 * there[0], f"the loss did not fall enough: {there[0]:.3f} to {there[-1]:.3f} in {STEPS} steps"
    assert off <= tolerance, (f"the losses differ from the CPU's by up to {off:.3g} of the first loss, "
                              f"expected at most {tolerance:g}")
    return f"loss {there[0]:.3f} to {there[-1]:.3f} in {STEPS} steps, at most {off:.2g} of the first loss from the CPU's"


def generate_check(accelerator, dtype, tolerance):
    """Generate greedily on the CPU, and compare the logits for the same tokens on the device."""
    module = models.train(models.Decoder, models.adam, torch.device("cpu"), STEPS, torch.float32)[0].to(dtype)
    prompt = models.text(8)[0].tolist()
    tokens, here = models.generate(module, prompt, 40, torch.device("cpu"))
    _, there = models.generate(module, prompt, 40, torch.device(accelerator.current_device_name()), follow=tokens)
    off = ((there - here).abs().max() / here.abs().max()).item()
    assert off <= tolerance, f"the logits differ from the CPU's by up to {off:.3g}, expected at most {tolerance:g}"
    margin = here.topk(2).values
    sure = margin[:, 0] - margin[:, 1] > 2 * tolerance * here.abs().max()
    assert torch.equal(there.argmax(-1)[sure], here.argmax(-1)[sure]), "the device and the CPU choose different tokens"
    if dtype == torch.float32:
        want = module.logits_after(torch.tensor([prompt + tokens[:-1]]))[0, len(prompt) - 1:]
        plain = ((here - want).abs().max() / want.abs().max()).item()
        assert plain <= 1e-3, f"the op's logits differ from torch's by up to {plain:.3g}"
    return f"{len(tokens)} tokens, {int(sure.sum())} compared, logits at most {off:.2g} from the CPU's"


def main():
    parser = argparse.ArgumentParser(prog="python3 -m anyaccel_prove.checks.end_to_end", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "generate"))
    parser.add_argument("--only", metavar="PATTERN", default="*", help="run only matching checks (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(min(4, torch.get_num_threads()))
    accelerator = anyaccel.get_accelerator()
    out = Results(options.only)
    if options.what == "train":
        out.run("decoder-FusedAdam/float32", train_check, accelerator, models.Decoder, models.adam, torch.float32, 0.02)
        out.run("layer-FusedLion/float32", train_check, accelerator, models.Encoder, models.lion, torch.float32, 0.02)
        out.run("decoder-FusedAdam/bfloat16", train_check, accelerator, models.Decoder, models.adam, torch.bfloat16, 0.05)
    else:
        out.run("decoder/float32", generate_check, accelerator, torch.float32, 1e-3)
        out.run("decoder/bfloat16", generate_check, accelerator, torch.bfloat16, 5e-2)
    return out.end()


if __name__ == "__main__":
    sys.exit(main())
