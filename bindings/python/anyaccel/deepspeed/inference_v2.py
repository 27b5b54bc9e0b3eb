"""Fixes that let DeepSpeed's inference v2 (0.19.8) run on a CPU.

Its modules pass torch the index of the current device, which torch interprets as the index of a GPU
or another accelerator. They query CUDA for the attention block size and for 6-bit weight support,
and they allocate a list of blocks in pinned memory.
"""

import types

import torch


def mend(module):
    """Patch a module of `deepspeed.inference.v2`, right after it is executed."""
    from deepspeed.accelerator import get_accelerator
    if get_accelerator()._name != "cpu":
        return
    if module.__name__.endswith(".blocked_allocator"):
        module.torch = _WithoutPinning("torch")
    if module.__name__.endswith(".modules.heuristics"):
        module.instantiate_linear = _with_six_bits(module, module.instantiate_linear)
    theirs = getattr(module, "get_accelerator", None)
    if theirs is None:
        return
    by_name = _ByName(theirs())
    module.get_accelerator = lambda: by_name
    if hasattr(module, "get_q_block_size"):
        module.get_q_block_size, module.get_kv_block_size = _query_block, _key_block


def _with_six_bits(module, theirs):
    def instantiate_linear(linear_config, engine_config):
        if engine_config.quantization.quantization_mode != "wf6af16":
            return theirs(linear_config, engine_config)
        return module.DSLinearRegistry.instantiate_config(module.ConfigBundle(name="quantized_wf6af16_linear", config=linear_config))
    return instantiate_linear


def _query_block(head_size):
    """Return the number of queries in a block. Queries in the same block share each read of a
    head's keys.

    A thread computes a block's queries one by one, so smaller blocks keep more threads busy.
    """
    return 32


def _key_block(head_size):
    """Return the number of tokens in a block of the KV cache."""
    return 64


class _WithoutPinning(types.ModuleType):
    """Replacement for the torch module. Its arange() ignores `pin_memory`, because no device uses
    pinned memory.
    """

    def arange(self, *arguments, pin_memory=False, **named):
        return torch.arange(*arguments, **named)

    def __getattr__(self, name):
        return getattr(torch, name)


class _ByName:
    """Accelerator wrapper. Its current_device() returns torch's device name instead of an index."""

    def __init__(self, accelerator):
        self._accelerator = accelerator

    def current_device(self):
        return self._accelerator.current_device_name()

    def __getattr__(self, name):
        return getattr(self._accelerator, name)
