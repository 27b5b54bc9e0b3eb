"""Suites of `tools/compat`. Each has TITLE and run(options, excluded), which returns report.Results."""
from . import accelerate, deepspeed, lightning, openreg, peft, torchtune, transformers

SUITES = {
    "accelerate": accelerate.SUITE, "deepspeed": deepspeed, "lightning": lightning, "openreg": openreg, "peft": peft.SUITE,
    "torchtune": torchtune, "transformers": transformers.SUITE
}  # yapf: disable
