"""The functions that DeepSpeed's RaggedOpsBuilder().load() returns, with the same names and
arguments: kernels for ragged batches and a blocked KV cache in host memory. Invalid arguments raise
ValueError.
"""

import torch


def _op(name):
    name = "ragged_" + name
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("RaggedOpsBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def build_atoms(atoms, batch_metadata, seq_metadata, kv_ptrs, q_block_size, kv_block_size):
    """Split the sequences' new tokens into atoms, write one int32 row of `atoms` [rows, 8] per
    atom, and return the number of atoms.
    """
    return _op("build_atoms")(atoms, batch_metadata, seq_metadata, kv_ptrs, q_block_size, kv_block_size)


def flash_attn_by_atoms(out, q, k, v, attention_atoms, softmax_scale, is_causal):
    """Compute attention for queries [tokens, heads * head dim] over key and value caches [blocks,
    block size, KV heads, head dim].
    """
    _op("attention")(out, q, k, v, attention_atoms, softmax_scale, is_causal)


def kv_rotary_embeddings(kv_cache, q, k, v, rotary_dim, theta_base, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs):
    """Apply rotary embeddings to the queries in place, and write the rotated keys and the values to
    the cache [blocks, block size, 2, KV heads, head dim].
    """
    _op("kv_rotary_embeddings")(kv_cache, q, k, v, rotary_dim, theta_base, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs)


def kv_trained_rotary_embeddings(kv_cache, q, k, v, inv_freq, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs):
    """Like kv_rotary_embeddings(), but takes the frequencies [rotated dimensions / 2] as an
    argument.
    """
    _op("kv_trained_rotary_embeddings")(kv_cache, q, k, v, inv_freq, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs)


def linear_kv_copy(kv_cache, q, k, v, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs):
    """Write keys and values to the cache without rotary embeddings."""
    _op("linear_kv_copy")(kv_cache, q, k, v, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs)


def ragged_embed(embedded_tokens, input_ids, embedding_weight, position_embedding_weight, pos_embed_offset, batch_metadata, seq_metadata,
                 tokens_to_seq, kv_ptrs):
    """Write each token's embedding row, plus the row of its position if
    position_embedding_weight is not None."""
    _op("embed")(embedded_tokens, input_ids, embedding_weight, position_embedding_weight, pos_embed_offset, batch_metadata, seq_metadata, tokens_to_seq,
                 kv_ptrs)


def gather_for_logits(final_token_acts, all_acts, batch_metadata, seq_metadata):
    """Copy the row of each sequence's last token to final_token_acts."""
    _op("gather_for_logits")(final_token_acts, all_acts, batch_metadata, seq_metadata)


def moe_gather(layer_output, moe_output, scores, mapped_slots, expert_count, normalize_scales):
    """Sum each token's expert output rows, weighted by its scores, and reset the expert counts to
    zero.
    """
    _op("moe_gather")(layer_output, moe_output, scores, mapped_slots, expert_count, normalize_scales)


def moe_scatter(moe_input, expert_count_cumsums, mapped_slots, activations, expert_counts, assignments, offsets):
    """Append each token's row to the input rows of its experts."""
    _op("moe_scatter")(moe_input, expert_count_cumsums, mapped_slots, activations, expert_counts, assignments, offsets)


def top_k_gating(expert_counts, scores, assignments, offsets, logits, batch_metadata):
    """Select each token's best experts. Write their indices, their scores, and the token's position
    among each expert's tokens, and update the expert counts.
    """
    _op("top_k_gating")(expert_counts, scores, assignments, offsets, logits, batch_metadata)
