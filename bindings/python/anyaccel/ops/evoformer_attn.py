"""The functions that DeepSpeed's EvoformerAttnBuilder().load() returns: `attention` and
`attention_bwd`, which write their results to tensors that the caller passes.

`evoformer_attention` and `DS4Sci_EvoformerAttention` are differentiable. Invalid arguments raise
ValueError.
"""

import torch


def _op(name):
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("EvoformerAttnBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def evoformer_attention(q, k, v, bias1=None, bias2=None, scale=None):
    """Return softmax(scale q k^T + bias1 + bias2) v.

    q is [..., entries, queries, heads, dim], k and v [..., entries, keys, heads, dim], bias1 [...,
    entries, 1, 1, keys], bias2 [..., 1, heads, queries, keys]. The default scale is 1 / sqrt(dim).
    The result for a fully masked query is zero. Differentiable with respect to all tensors,
    including the biases.
    """
    return _op("evoformer_attention")(q, k, v, bias1, bias2, scale)


def DS4Sci_EvoformerAttention(Q, K, V, biases):
    """Like evoformer_attention(), with the biases as a list of at most two, each of which may be
    None.

    Counterpart of DeepSpeed's function.
    """
    if len(biases) > 2:
        raise ValueError(f"[DS4Sci_EvoformerAttention] too many biases; got {len(biases)}, want at most 2")
    bias1, bias2 = [*biases, None, None][:2]
    return evoformer_attention(Q, K, V, bias1, bias2)


def attention(Q, K, V, bias1, bias2, O, lse):  # noqa: E741
    """Write the result to O, and each query's log-sum-exp to lse, float32 [entries, heads, length],
    where length is at least the number of queries. Empty biases mean no bias.
    """
    _op("_evoformer_attention_into")(Q, K, V, _or_none(bias1), _or_none(bias2), None, O, lse)


def attention_bwd(dO, Q, K, V, O, lse, delta, bias1, bias2, dQ, dK, dV, dB1, dB2):  # noqa: E741
    """Write the gradients to dQ, dK and dV, and add those of the biases to dB1 and dB2, float32,
    unless these are empty. `delta` is ignored."""
    _op("_evoformer_attention_backward_into")(dO, Q, K, V, O, lse, _or_none(bias1), _or_none(bias2), None, dQ, dK, dV, _or_none(dB1),
                                              _or_none(dB2))


def _or_none(tensor):
    return None if tensor is None or tensor.numel() == 0 else tensor
