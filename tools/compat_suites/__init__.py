"""Suites of `tools/compat`. Each has TITLE and run(options, excluded), which returns report.Results."""
from . import accelerate, openreg, peft, transformers

SUITES = {"accelerate": accelerate.SUITE, "openreg": openreg, "peft": peft.SUITE, "transformers": transformers.SUITE}
