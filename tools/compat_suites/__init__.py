"""Suites of `tools/compat`."""
from . import deepspeed, lightning, openreg, torchtune

SUITES = {"deepspeed": deepspeed, "lightning": lightning, "openreg": openreg, "torchtune": torchtune}
