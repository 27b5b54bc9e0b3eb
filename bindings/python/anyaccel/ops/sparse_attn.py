"""Block-sparse attention for tensors in host memory, with the names and arguments of
`deepspeed.ops.sparse_attention`.

include/anyaccel/ops/sparse_attention.h describes the options and errors. Invalid arguments raise
ValueError. The argument `seed` does not exist in DeepSpeed. It selects the random blocks. The same
seed selects the same blocks as in C++.
"""

import torch

from ._sparse_blocks import MatMul, Softmax  # noqa: F401


def _op(name):
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("SparseAttnBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def sparse_attention(q, k, v, layout, block, scale=None, rpe=None, key_padding_mask=None, attn_mask=None,
                     key_padding_mask_mode="add", attn_mask_mode="mul"):
    """Return softmax(scale q k^T + masks) v over the blocks of the layout.

    Tensors are [batch, heads, length, head dim]. Differentiable with respect to q, k, v and rpe.
    """
    return _op("sparse_attention")(q, k, v, layout, block, scale, rpe, key_padding_mask, attn_mask,
                                   key_padding_mask_mode, attn_mask_mode)


class SparsityConfig:
    """Base class for the layouts."""

    _kind = None
    _options = ()

    def __init__(self, num_heads, block=16, different_layout_per_head=False):
        self.num_heads = num_heads
        self.block = block
        self.different_layout_per_head = different_layout_per_head

    def _keep(self, **options):
        self._options = tuple(options)
        self.__dict__.update(options)
        self.make_layout(0)  # checks the options

    def make_layout(self, seq_len):
        """Return the layout, int64 [num_heads, seq_len / block, seq_len / block] of 0 and 1."""
        if self._kind is None:
            raise NotImplementedError("SparsityConfig is a base class without a layout; use one of its subclasses")
        options = {name: getattr(self, name) for name in self._options}
        return _op("sparse_attention_layout")(self._kind, self.num_heads, self.block, seq_len,
                                              self.different_layout_per_head, **options)


class DenseSparsityConfig(SparsityConfig):
    """A layout that contains all blocks."""

    _kind = "dense"

    def __init__(self, num_heads, block=16, different_layout_per_head=False):
        super().__init__(num_heads, block, different_layout_per_head)
        self._keep()


class FixedSparsityConfig(SparsityConfig):
    """Layout with consecutive windows.

    All blocks also attend to the last blocks of each window, which represent the window.
    """

    _kind = "fixed"

    def __init__(self, num_heads, block=16, different_layout_per_head=False, num_local_blocks=4, num_global_blocks=1,
                 attention="bidirectional", horizontal_global_attention=False, num_different_global_patterns=1):
        super().__init__(num_heads, block, different_layout_per_head)
        self._keep(num_local_blocks=num_local_blocks, num_global_blocks=num_global_blocks, attention=attention,
                   horizontal_global_attention=horizontal_global_attention,
                   num_different_global_patterns=num_different_global_patterns)


class VariableSparsityConfig(SparsityConfig):
    """Layout with windows of given sizes, given global blocks, and random blocks."""

    _kind = "variable"

    def __init__(self, num_heads, block=16, different_layout_per_head=False, num_random_blocks=0,
                 local_window_blocks=(4,), global_block_indices=(0,), global_block_end_indices=None,
                 attention="bidirectional", horizontal_global_attention=False, seed=0):
        super().__init__(num_heads, block, different_layout_per_head)
        self._keep(num_random_blocks=num_random_blocks, local_window_blocks=local_window_blocks,
                   global_block_indices=global_block_indices, global_block_end_indices=global_block_end_indices,
                   attention=attention, horizontal_global_attention=horizontal_global_attention, seed=seed)


class BigBirdSparsityConfig(SparsityConfig):
    """Layout with a sliding window, the first blocks as global blocks, and random blocks."""

    _kind = "bigbird"

    def __init__(self, num_heads, block=16, different_layout_per_head=False, num_random_blocks=1,
                 num_sliding_window_blocks=3, num_global_blocks=1, attention="bidirectional", seed=0):
        super().__init__(num_heads, block, different_layout_per_head)
        self._keep(num_random_blocks=num_random_blocks, num_sliding_window_blocks=num_sliding_window_blocks,
                   num_global_blocks=num_global_blocks, attention=attention, seed=seed)


class BSLongformerSparsityConfig(SparsityConfig):
    """Layout with a sliding window and given global blocks."""

    _kind = "bslongformer"

    def __init__(self, num_heads, block=16, different_layout_per_head=False, num_sliding_window_blocks=3,
                 global_block_indices=(0,), global_block_end_indices=None, attention="bidirectional"):
        super().__init__(num_heads, block, different_layout_per_head)
        self._keep(num_sliding_window_blocks=num_sliding_window_blocks, global_block_indices=global_block_indices,
                   global_block_end_indices=global_block_end_indices, attention=attention)


class LocalSlidingWindowSparsityConfig(SparsityConfig):
    """Layout with a sliding window."""

    _kind = "local"

    def __init__(self, num_heads, block=16, num_sliding_window_blocks=3, attention="unidirectional"):
        super().__init__(num_heads, block)
        self._keep(num_sliding_window_blocks=num_sliding_window_blocks, attention=attention)


class SparseSelfAttention(torch.nn.Module):
    """Attention with a layout that is created once, for `max_seq_length`.

    Shorter sequences use the layout's first rows and columns.
    """

    def __init__(self, sparsity_config=None, key_padding_mask_mode="add", attn_mask_mode="mul", max_seq_length=2048):
        super().__init__()
        self.sparsity_config = sparsity_config or FixedSparsityConfig(num_heads=4)
        self.key_padding_mask_mode = key_padding_mask_mode
        self.attn_mask_mode = attn_mask_mode
        self.register_buffer("master_layout", self.sparsity_config.make_layout(max_seq_length))

    def get_layout(self, length):
        block = self.sparsity_config.block
        if length % block or length > self.master_layout.shape[1] * block:
            raise ValueError(f"[SparseSelfAttention] the sequence does not fit the layout; got {length}, want a multiple of "
                             f"{block} up to {self.master_layout.shape[1] * block}; use "
                             "SparseAttentionUtils.pad_to_block_size or a larger max_seq_length")
        blocks = length // block
        return self.master_layout[:, :blocks, :blocks]

    def forward(self, query, key, value, rpe=None, key_padding_mask=None, attn_mask=None):
        """Compute attention.

        Tensors are [batch, heads, length, head dim], key_padding_mask [batch, length] and attn_mask
        [length, length]; masks may have additional dimensions of 1.
        """
        if key_padding_mask is not None and key_padding_mask.dim() > 2:
            key_padding_mask = key_padding_mask.reshape(key_padding_mask.shape[0], key_padding_mask.shape[-1])
        if attn_mask is not None and attn_mask.dim() > 2:
            attn_mask = attn_mask.reshape(attn_mask.shape[-2:])
        if key.shape != query.shape and key.transpose(-1, -2).shape == query.shape:
            key = key.transpose(-1, -2)  # DeepSpeed also accepts a transposed key
        return sparse_attention(query, key, value, self.get_layout(query.shape[2]).to(query.device),
                                self.sparsity_config.block, None, rpe, key_padding_mask, attn_mask,
                                self.key_padding_mask_mode, self.attn_mask_mode)


class SparseAttentionUtils:
    """Pads a model's inputs to a multiple of the block size."""

    @staticmethod
    def pad_to_block_size(block_size, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
                          pad_token_id, model_embeddings):
        """Return the number of appended positions, followed by the padded inputs.

        Inputs that are None stay None. The padding is masked.
        """
        length = (input_ids if input_ids is not None else inputs_embeds).shape[1]
        pad_len = -length % block_size

        def pad(tensor, value):
            return None if tensor is None else torch.nn.functional.pad(tensor, (0, pad_len), value=value)

        if pad_len:
            if inputs_embeds is not None:
                ids = inputs_embeds.new_full((inputs_embeds.shape[0], pad_len), pad_token_id, dtype=torch.long)
                inputs_embeds = torch.cat([inputs_embeds, model_embeddings(ids)], dim=-2)
            input_ids, position_ids = pad(input_ids, pad_token_id), pad(position_ids, pad_token_id)
            attention_mask, token_type_ids = pad(attention_mask, 0), pad(token_type_ids, 0)
        return pad_len, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds

    @staticmethod
    def unpad_sequence_output(pad_len, sequence_output):
        """Return the output without the appended positions."""
        return sequence_output[:, :-pad_len] if pad_len else sequence_output
