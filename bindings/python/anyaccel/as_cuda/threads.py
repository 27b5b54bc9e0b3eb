"""Keeps the redirection active in every thread, and during backward passes."""

from __future__ import annotations

import functools
import threading
import typing

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from .patches import Patches


def enter_everywhere(mode: TorchFunctionMode, patches: Patches) -> None:
    """Enter `mode` in this thread and in all threads that start later.

    Each thread has its own stack of modes. Threads started with _thread.start_new_thread() are not
    covered.
    """
    mode.__enter__()
    patches.on_restore(lambda: mode.__exit__(None, None, None))
    start = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    @functools.wraps(start)
    def bootstrap(thread: threading.Thread) -> None:
        with mode:
            start(thread)

    patches.set(threading.Thread, "_bootstrap_inner", bootstrap)
    _enter_in_backward(mode, patches)


def _enter_in_backward(mode: TorchFunctionMode, patches: Patches) -> None:
    """Enter `mode` again in backward passes. torch disables the mode during Tensor.backward(), but hooks
    and custom functions run there."""
    run = torch.autograd.graph._engine_run_backward

    @functools.wraps(run)
    def run_backward(*arguments: typing.Any, **options: typing.Any) -> typing.Any:
        if mode in _get_current_function_mode_stack():
            return run(*arguments, **options)
        with mode:
            return run(*arguments, **options)

    for place in (torch.autograd, torch.autograd.graph):
        patches.set(place, "_engine_run_backward", run_backward)
