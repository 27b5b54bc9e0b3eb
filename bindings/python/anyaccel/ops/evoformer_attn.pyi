from collections.abc import Sequence

from torch import Tensor

def evoformer_attention(q: Tensor, k: Tensor, v: Tensor, bias1: Tensor | None = None, bias2: Tensor | None = None,
                        scale: float | None = None) -> Tensor:
    """Return softmax(scale q k^T + bias1 + bias2) v, differentiable with respect to all tensors."""
def DS4Sci_EvoformerAttention(Q: Tensor, K: Tensor, V: Tensor, biases: Sequence[Tensor | None]) -> Tensor:
    """Like evoformer_attention(), with the biases as a list of at most two, each of which may be
    None."""
def attention(Q: Tensor, K: Tensor, V: Tensor, bias1: Tensor | None, bias2: Tensor | None, O: Tensor, lse: Tensor) -> None:  # noqa: E741
    """Write the result to O, and each query's log-sum-exp to lse. Empty biases mean no bias."""
def attention_bwd(dO: Tensor, Q: Tensor, K: Tensor, V: Tensor, O: Tensor, lse: Tensor, delta: Tensor, bias1: Tensor | None,  # noqa: E741
                  bias2: Tensor | None, dQ: Tensor, dK: Tensor, dV: Tensor, dB1: Tensor | None, dB2: Tensor | None) -> None:
    """Write the gradients to dQ, dK and dV, and add those of the biases to dB1 and dB2 unless
    these are empty."""
