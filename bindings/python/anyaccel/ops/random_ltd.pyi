from torch import Tensor

def token_sort_(unsorted_token_ids: Tensor, original_tokens: int) -> Tensor:
    """Sort the values of each row (the last dimension) in place, and return the tensor."""
def token_gather(activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> Tensor:
    """Return the tokens at `sorted_indices` [batch, count] of activations [batch, tokens,
    channels] or, without batch_first, [tokens, batch, channels]."""
def token_scatter(all_activations: Tensor, layer_activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> Tensor:
    """Return a copy of all activations in which the layer's tokens replace those at
    `sorted_indices`."""
def token_scatter_(all_activations: Tensor, layer_activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> Tensor:
    """Replace, in place, the tokens at `sorted_indices` of `all_activations` with the layer's
    tokens, and return `all_activations`.
    """
def mask_gather_bert(dense_mask: Tensor, sorted_indices: Tensor) -> Tensor:
    """Return masks [layers, batch, heads, count, count] for the tokens at `sorted_indices`
    [layers, batch, count]."""
def mask_gather_gpt(dense_mask: Tensor, truncated_seq_len: int) -> Tensor:
    """Return a copy of the mask's first rows and columns."""
def gpt_sample_tokens(reserved_length: int, seq_length: int, batch_size: int, layers: int = 1, device: str = "cpu",
                      attn_mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Return (indices, mask): the tokens that each layer keeps, int32 [layers, batch,
    reserved_length], and the first rows and columns of a causal mask.
    """
def bert_sample_tokens(reserved_length: int, seq_length: int, batch_size: int, layers: int = 1, device: str = "cpu",
                       attn_mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    """Return (indices, masks): the tokens that each layer keeps, and each layer's mask for them."""

class GatherTokens:
    @staticmethod
    def apply(activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]: ...

class ScatterTokens:
    @staticmethod
    def apply(all_activations: Tensor, layer_activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> Tensor: ...
