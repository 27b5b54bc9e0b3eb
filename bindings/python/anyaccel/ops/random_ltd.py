"""What DeepSpeed's RandomLTDBuilder().load() has, under the same names and with the same arguments, and `token_scatter`, which has a gradient.
A wrong argument is a ValueError."""

import torch


def _op(name):
    if not hasattr(torch.ops.anyaccel, name):
        from .. import get_accelerator
        get_accelerator().create_op_builder("RandomLTDBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def token_sort_(unsorted_token_ids, original_tokens):
    """Sorts the numbers in each row (the last dimension) in place, and returns the tensor."""
    _op("token_sort_")(unsorted_token_ids, original_tokens)
    return unsorted_token_ids


def token_gather(activations, sorted_indices, batch_first):
    """The tokens that `sorted_indices` [batch, count] names, of activations [batch, tokens, channels] or, without batch_first,
    [tokens, batch, channels]. Differentiable."""
    return _op("token_gather")(activations, sorted_indices, batch_first)


def token_scatter(all_activations, layer_activations, sorted_indices, batch_first):
    """A copy of all activations with the layer's tokens in their places. Differentiable."""
    return _op("token_scatter")(all_activations, layer_activations, sorted_indices, batch_first)


def token_scatter_(all_activations, layer_activations, sorted_indices, batch_first):
    """Puts the layer's tokens into their places among all, in place, and returns that tensor."""
    _op("token_scatter_")(all_activations, layer_activations, sorted_indices, batch_first)
    return all_activations


def mask_gather_bert(dense_mask, sorted_indices):
    """Masks [layers, batch, heads, count, count] for the tokens that `sorted_indices` [layers, batch, count] names."""
    return _op("mask_gather_bert")(dense_mask, sorted_indices)


def mask_gather_gpt(dense_mask, truncated_seq_len):
    """The mask's first rows and columns, copied."""
    return _op("mask_gather_gpt")(dense_mask, truncated_seq_len)
