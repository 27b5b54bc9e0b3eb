"""What DeepSpeed's EvoformerAttnBuilder().load() has: `attention` and `attention_bwd`, which write into the tensors that they are given; and
`evoformer_attention`, which has gradients, with `DS4Sci_EvoformerAttention` over it. A wrong argument is a ValueError."""

import torch


def _op(name):
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("EvoformerAttnBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def evoformer_attention(q, k, v, bias1=None, bias2=None, scale=None):
    """softmax(scale q k^T + bias1 + bias2) v. q is [..., entries, queries, heads, dim], k and v [..., entries, keys, heads, dim], bias1
    [..., entries, 1, 1, keys], bias2 [..., 1, heads, queries, keys]; the scale is 1 / sqrt(dim) unless given. A query that sees nothing
    gives zeros. Differentiable, biases too."""
    return _op("evoformer_attention")(q, k, v, bias1, bias2, scale)


def DS4Sci_EvoformerAttention(Q, K, V, biases):
    """evoformer_attention() with the biases as a list of at most two, each of which may be None; as DeepSpeed's function of that name."""
    if len(biases) > 2:
        raise ValueError(f"[DS4Sci_EvoformerAttention] there are too many biases; got {len(biases)}, want at most 2")
    bias1, bias2 = [*biases, None, None][:2]
    return evoformer_attention(Q, K, V, bias1, bias2)


def attention(Q, K, V, bias1, bias2, O, lse):  # noqa: E741
    """The result into O, and the logarithm of each query's sum of exponentials into lse, float32 [entries, heads, queries or more]. Biases
    without elements are none."""
    _op("_evoformer_attention_into")(Q, K, V, _or_none(bias1), _or_none(bias2), None, O, lse)


def attention_bwd(dO, Q, K, V, O, lse, delta, bias1, bias2, dQ, dK, dV, dB1, dB2):  # noqa: E741
    """Gradients into dQ, dK and dV; those of the biases are added to dB1 and dB2, float32, where these have elements. `delta` is not
    looked at."""
    _op("_evoformer_attention_backward_into")(dO, Q, K, V, O, lse, _or_none(bias1), _or_none(bias2), None, dQ, dK, dV, _or_none(dB1),
                                              _or_none(dB2))


def _or_none(tensor):
    return None if tensor is None or tensor.numel() == 0 else tensor
