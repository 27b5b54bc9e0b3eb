from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

def sparse_attention(q: Tensor, k: Tensor, v: Tensor, layout: Tensor, block: int, scale: float | None = None, rpe: Tensor | None = None,
                     key_padding_mask: Tensor | None = None, attn_mask: Tensor | None = None, key_padding_mask_mode: str = "add",
                     attn_mask_mode: str = "mul") -> Tensor:
    """Return softmax(scale q k^T + masks) v over the blocks of the layout.

    Differentiable with respect to q, k, v and rpe.
    """

class SparsityConfig:
    """Base class for the layouts."""

    num_heads: int
    block: int
    different_layout_per_head: bool
    def __init__(self, num_heads: int, block: int = 16, different_layout_per_head: bool = False) -> None: ...
    def make_layout(self, seq_len: int) -> Tensor:
        """Return the layout, int64 [num_heads, seq_len / block, seq_len / block] of 0 and 1."""

class DenseSparsityConfig(SparsityConfig):
    """A layout that contains all blocks."""

    def __init__(self, num_heads: int, block: int = 16, different_layout_per_head: bool = False) -> None: ...

class FixedSparsityConfig(SparsityConfig):
    """Layout with consecutive windows.

    All blocks also attend to the last blocks of each window, which represent the window.
    """

    def __init__(self, num_heads: int, block: int = 16, different_layout_per_head: bool = False, num_local_blocks: int = 4,
                 num_global_blocks: int = 1, attention: str = "bidirectional", horizontal_global_attention: bool = False,
                 num_different_global_patterns: int = 1) -> None: ...

class VariableSparsityConfig(SparsityConfig):
    """Layout with windows of given sizes, given global blocks, and random blocks."""

    def __init__(self, num_heads: int, block: int = 16, different_layout_per_head: bool = False, num_random_blocks: int = 0,
                 local_window_blocks: Sequence[int] = (4,), global_block_indices: Sequence[int] = (0,),
                 global_block_end_indices: Sequence[int] | None = None, attention: str = "bidirectional",
                 horizontal_global_attention: bool = False, seed: int = 0) -> None: ...

class BigBirdSparsityConfig(SparsityConfig):
    """Layout with a sliding window, the first blocks as global blocks, and random blocks."""

    def __init__(self, num_heads: int, block: int = 16, different_layout_per_head: bool = False, num_random_blocks: int = 1,
                 num_sliding_window_blocks: int = 3, num_global_blocks: int = 1, attention: str = "bidirectional", seed: int = 0) -> None: ...

class BSLongformerSparsityConfig(SparsityConfig):
    """Layout with a sliding window and given global blocks."""

    def __init__(self, num_heads: int, block: int = 16, different_layout_per_head: bool = False, num_sliding_window_blocks: int = 3,
                 global_block_indices: Sequence[int] = (0,), global_block_end_indices: Sequence[int] | None = None,
                 attention: str = "bidirectional") -> None: ...

class LocalSlidingWindowSparsityConfig(SparsityConfig):
    """Layout with a sliding window."""

    def __init__(self, num_heads: int, block: int = 16, num_sliding_window_blocks: int = 3, attention: str = "unidirectional") -> None: ...

class SparseSelfAttention(torch.nn.Module):
    """Attention with a layout that is created once, for `max_seq_length`.

    Shorter sequences use the layout's first rows and columns.
    """

    def __init__(self, sparsity_config: SparsityConfig | None = None, key_padding_mask_mode: str = "add", attn_mask_mode: str = "mul",
                 max_seq_length: int = 2048) -> None: ...
    def get_layout(self, length: int) -> Tensor: ...
    def forward(self, query: Tensor, key: Tensor, value: Tensor, rpe: Tensor | None = None, key_padding_mask: Tensor | None = None,
                attn_mask: Tensor | None = None) -> Tensor: ...

class SparseAttentionUtils:
    """Pads a model's inputs to a multiple of the block size."""

    @staticmethod
    def pad_to_block_size(block_size: int, input_ids: Tensor | None, attention_mask: Tensor | None, token_type_ids: Tensor | None,
                          position_ids: Tensor | None, inputs_embeds: Tensor | None, pad_token_id: int, model_embeddings: Any
                          ) -> tuple[int, Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]: ...
    @staticmethod
    def unpad_sequence_output(pad_len: int, sequence_output: Tensor) -> Tensor: ...

class MatMul:
    """Matrix product in which one factor or the result is block-sparse.

    `mode` is sdd (dense @ dense, with a sparse result), dsd (sparse @ dense) or dds (dense @
    sparse).
    """

    def __init__(self, layout: Tensor, block: int, mode: str, trans_a: bool = False, trans_b: bool = False, bench: bool = False) -> None: ...
    def __call__(self, a: Tensor, b: Tensor) -> Tensor: ...

class Softmax:
    """Softmax over the rows of a sparse matrix. Rows that are completely masked become zeros."""

    def __init__(self, layout: Tensor, block: int, bench: bool = False) -> None: ...
    def __call__(self, x: Tensor, scale: float = 1.0, rpe: Tensor | None = None, key_padding_mask: Tensor | None = None,
                 attn_mask: Tensor | None = None, key_padding_mask_mode: str = "add", attn_mask_mode: str = "add") -> Tensor: ...
