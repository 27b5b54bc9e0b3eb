"""Counterpart of the package `deepspeed.ops.sparse_attention` in older DeepSpeed releases.

See anyaccel.ops.sparse_attn.
"""

from .sparse_attn import (BigBirdSparsityConfig, BSLongformerSparsityConfig, DenseSparsityConfig, FixedSparsityConfig,
                          LocalSlidingWindowSparsityConfig, MatMul, Softmax, SparseAttentionUtils, SparseSelfAttention, SparsityConfig,
                          VariableSparsityConfig)

__path__ = []  # a package in DeepSpeed; see _deepspeed_paths.py

__all__ = ["BigBirdSparsityConfig", "BSLongformerSparsityConfig", "DenseSparsityConfig", "FixedSparsityConfig", "LocalSlidingWindowSparsityConfig",
           "MatMul", "Softmax", "SparseAttentionUtils", "SparseSelfAttention", "SparsityConfig", "VariableSparsityConfig"]
