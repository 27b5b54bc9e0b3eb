from torch import Tensor

def token_sort_(unsorted_token_ids: Tensor, original_tokens: int) -> Tensor:
    """Sorts the numbers in each row (the last dimension) in place, and returns the tensor."""
def token_gather(activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> Tensor:
    """The tokens that `sorted_indices` [batch, count] names, of activations [batch, tokens, channels] or, without batch_first, [tokens, batch, channels]."""
def token_scatter(all_activations: Tensor, layer_activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> Tensor:
    """A copy of all activations with the layer's tokens in their places."""
def token_scatter_(all_activations: Tensor, layer_activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> Tensor:
    """Puts the layer's tokens into their places among all, in place, and returns that tensor."""
def mask_gather_bert(dense_mask: Tensor, sorted_indices: Tensor) -> Tensor:
    """Masks [layers, batch, heads, count, count] for the tokens that `sorted_indices` [layers, batch, count] names."""
def mask_gather_gpt(dense_mask: Tensor, truncated_seq_len: int) -> Tensor:
    """The mask's first rows and columns, copied."""
def gpt_sample_tokens(reserved_length: int, seq_length: int, batch_size: int, layers: int = 1, device: str = "cpu",
                      attn_mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Which tokens layers keep, int32 [layers, batch, reserved_length], and the first rows and columns of a causal mask."""
def bert_sample_tokens(reserved_length: int, seq_length: int, batch_size: int, layers: int = 1, device: str = "cpu",
                       attn_mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    """Which tokens layers keep, and for each layer the mask of those."""

class GatherTokens:
    @staticmethod
    def apply(activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]: ...

class ScatterTokens:
    @staticmethod
    def apply(all_activations: Tensor, layer_activations: Tensor, sorted_indices: Tensor, batch_first: bool) -> Tensor: ...
