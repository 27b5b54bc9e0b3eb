from collections.abc import Sequence

from torch import Tensor

def evoformer_attention(q: Tensor, k: Tensor, v: Tensor, bias1: Tensor | None = None, bias2: Tensor | None = None,
                        scale: float | None = None) -> Tensor:
    """softmax(scale q k^T + bias1 + bias2) v, with gradients for all of them."""
def DS4Sci_EvoformerAttention(Q: Tensor, K: Tensor, V: Tensor, biases: Sequence[Tensor | None]) -> Tensor:
    """evoformer_attention() with the biases as a list of at most two, each of which may be None."""
def attention(Q: Tensor, K: Tensor, V: Tensor, bias1: Tensor | None, bias2: Tensor | None, O: Tensor, lse: Tensor) -> None:  # noqa: E741
    """The result into O, and the logarithm of each query's sum of exponentials into lse. Biases without elements are none."""
def attention_bwd(dO: Tensor, Q: Tensor, K: Tensor, V: Tensor, O: Tensor, lse: Tensor, delta: Tensor, bias1: Tensor | None,  # noqa: E741
                  bias2: Tensor | None, dQ: Tensor, dK: Tensor, dV: Tensor, dB1: Tensor | None, dB2: Tensor | None) -> None:
    """Gradients into dQ, dK and dV; those of the biases are added to dB1 and dB2 where these have elements."""
