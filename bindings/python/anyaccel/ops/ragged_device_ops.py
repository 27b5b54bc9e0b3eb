"""What DeepSpeed's RaggedOpsBuilder().load() has, under the same names and with the same arguments: kernels over ragged batches and a cache of keys
and values in blocks, in host memory. A wrong argument is a ValueError."""

import torch


def _op(name):
    name = "ragged_" + name
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("RaggedOpsBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def build_atoms(atoms, batch_metadata, seq_metadata, kv_ptrs, q_block_size, kv_block_size):
    """Parts the sequences' new tokens into atoms, rows of int32 [atoms, 8]; returns how many."""
    return _op("build_atoms")(atoms, batch_metadata, seq_metadata, kv_ptrs, q_block_size, kv_block_size)


def flash_attn_by_atoms(out, q, k, v, attention_atoms, softmax_scale, is_causal):
    """Attention of queries [tokens, heads * head dim] over caches [blocks, block size, heads of keys, head dim]."""
    _op("attention")(out, q, k, v, attention_atoms, softmax_scale, is_causal)


def kv_rotary_embeddings(kv_cache, q, k, v, rotary_dim, theta_base, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs):
    """Turns queries in place, and puts turned keys, and values, into the cache [blocks, block size, 2, heads of keys, head dim]."""
    _op("kv_rotary_embeddings")(kv_cache, q, k, v, rotary_dim, theta_base, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs)


def kv_trained_rotary_embeddings(kv_cache, q, k, v, inv_freq, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs):
    """The same by given frequencies [rotated dimensions / 2]."""
    _op("kv_trained_rotary_embeddings")(kv_cache, q, k, v, inv_freq, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs)


def linear_kv_copy(kv_cache, q, k, v, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs):
    """Puts keys and values into the cache as they are."""
    _op("linear_kv_copy")(kv_cache, q, k, v, batch_metadata, seq_metadata, tokens_to_seq, kv_ptrs)


def ragged_embed(embedded_tokens, input_ids, embedding_weight, position_embedding_weight, pos_embed_offset, batch_metadata, seq_metadata,
                 tokens_to_seq, kv_ptrs):
    """Each token's row of the embedding, and of its place's where position_embedding_weight is not None."""
    _op("embed")(embedded_tokens, input_ids, embedding_weight, position_embedding_weight, pos_embed_offset, batch_metadata, seq_metadata, tokens_to_seq,
                 kv_ptrs)


def gather_for_logits(final_token_acts, all_acts, batch_metadata, seq_metadata):
    """The last token's row of each sequence."""
    _op("gather_for_logits")(final_token_acts, all_acts, batch_metadata, seq_metadata)


def moe_gather(layer_output, moe_output, scores, mapped_slots, expert_count, normalize_scales):
    """Each token's rows from its experts, times its scores, summed; the counts become zeros."""
    _op("moe_gather")(layer_output, moe_output, scores, mapped_slots, expert_count, normalize_scales)


def moe_scatter(moe_input, expert_count_cumsums, mapped_slots, activations, expert_counts, assignments, offsets):
    """Puts each token's row behind the others of its experts."""
    _op("moe_scatter")(moe_input, expert_count_cumsums, mapped_slots, activations, expert_counts, assignments, offsets)


def top_k_gating(expert_counts, scores, assignments, offsets, logits, batch_metadata):
    """Each token's best experts, their shares, and its place among their tokens, which are counted on."""
    _op("top_k_gating")(expert_counts, scores, assignments, offsets, logits, batch_metadata)
