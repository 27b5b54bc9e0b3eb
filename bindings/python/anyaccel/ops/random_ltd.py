"""The functions that DeepSpeed's RandomLTDBuilder().load() returns, with the same names and
arguments.

`token_scatter` does not exist in DeepSpeed; it is differentiable. The module also has the functions
and classes of the package `deepspeed.ops.random_ltd`. Invalid arguments raise ValueError.
"""

import torch

__path__ = []  # a package in DeepSpeed; see _deepspeed_paths.py


def _op(name):
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("RandomLTDBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def token_sort_(unsorted_token_ids, original_tokens):
    """Sort the values of each row (the last dimension) in place, and return the tensor."""
    _op("token_sort_")(unsorted_token_ids, original_tokens)
    return unsorted_token_ids


def token_gather(activations, sorted_indices, batch_first):
    """Return the tokens at `sorted_indices` [batch, count] of activations [batch, tokens,
    channels] or, without batch_first, [tokens, batch, channels]. Differentiable."""
    return _op("token_gather")(activations, sorted_indices, batch_first)


def token_scatter(all_activations, layer_activations, sorted_indices, batch_first):
    """Return a copy of all activations in which the layer's tokens replace those at
    `sorted_indices`.

    Differentiable.
    """
    return _op("token_scatter")(all_activations, layer_activations, sorted_indices, batch_first)


def token_scatter_(all_activations, layer_activations, sorted_indices, batch_first):
    """Replace, in place, the tokens at `sorted_indices` of `all_activations` with the layer's
    tokens, and return `all_activations`.
    """
    _op("token_scatter_")(all_activations, layer_activations, sorted_indices, batch_first)
    return all_activations


def mask_gather_bert(dense_mask, sorted_indices):
    """Return masks [layers, batch, heads, count, count] for the tokens at `sorted_indices`
    [layers, batch, count]."""
    return _op("mask_gather_bert")(dense_mask, sorted_indices)


def mask_gather_gpt(dense_mask, truncated_seq_len):
    """Return a copy of the mask's first rows and columns."""
    return _op("mask_gather_gpt")(dense_mask, truncated_seq_len)


def _sampled(reserved_length, seq_length, batch_size, layers, device):
    """Return int32 [layers, batch, reserved_length]: sorted random token indices, drawn separately
    for each sequence and layer.
    """
    chosen = torch.multinomial(torch.ones(layers * batch_size, seq_length, device=device), reserved_length)
    return token_sort_(chosen.reshape(layers, batch_size, reserved_length).to(torch.int32), seq_length)


def gpt_sample_tokens(reserved_length, seq_length, batch_size, layers=1, device="cpu", attn_mask=None):
    """Return (indices [layers, batch, reserved_length], mask): the tokens that each layer keeps,
    and the first rows and columns of a causal mask.
    """
    mask = None if attn_mask is None else attn_mask[:, :, :reserved_length, :reserved_length]
    return _sampled(reserved_length, seq_length, batch_size, layers, device), mask


def bert_sample_tokens(reserved_length, seq_length, batch_size, layers=1, device="cpu", attn_mask=None):
    """Return (indices [layers, batch, reserved_length], masks): the tokens that each layer keeps,
    and each layer's mask for them.
    """
    if attn_mask is None:
        raise ValueError("[bert_sample_tokens] attn_mask is required; got None")
    indices = _sampled(reserved_length, seq_length, batch_size, layers, device)
    masks = []
    for chosen in indices.long():
        rows = [attn_mask[i:i + 1, :, kept][:, :, :, kept] for i, kept in enumerate(chosen)]
        masks.append(torch.cat(rows))
    return indices, masks


class GatherTokens:
    """Counterpart of DeepSpeed's autograd function. The op itself is differentiable."""

    @staticmethod
    def apply(activations, sorted_indices, batch_first):
        """Return the activations unchanged, and the tokens at `sorted_indices`."""
        return activations, token_gather(activations, sorted_indices, batch_first)


class ScatterTokens:
    """Counterpart of DeepSpeed's autograd function.

    The op itself is differentiable. The gradient of `all_activations` is zero at the layer's
    tokens; DeepSpeed's GatherTokens puts the layer's gradient there.
    """

    @staticmethod
    def apply(all_activations, layer_activations, sorted_indices, batch_first):
        return token_scatter(all_activations, layer_activations, sorted_indices, batch_first)
