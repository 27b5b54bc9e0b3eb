"""Counterpart of DeepSpeed's package `deepspeed.ops.deepspeed4science`."""

from .evoformer_attn import DS4Sci_EvoformerAttention, evoformer_attention

__path__ = []  # a package in DeepSpeed; see _deepspeed_paths.py


class EvoformerFusedAttention:
    """Counterpart of DeepSpeed's autograd function. The op itself is differentiable."""

    @staticmethod
    def apply(q, k, v, bias1=None, bias2=None):
        return evoformer_attention(q, k, v, bias1, bias2)


__all__ = ["DS4Sci_EvoformerAttention", "EvoformerFusedAttention"]
