"""Suites of `tools/compat`."""
from . import deepspeed, openreg

SUITES = {"deepspeed": deepspeed, "openreg": openreg}
