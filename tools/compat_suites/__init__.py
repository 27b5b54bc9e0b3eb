"""Suites of `tools/compat`."""
from . import openreg

SUITES = {"openreg": openreg}
