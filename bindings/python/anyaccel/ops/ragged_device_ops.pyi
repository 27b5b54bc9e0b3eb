from torch import Tensor

def build_atoms(atoms: Tensor, batch_metadata: Tensor, seq_metadata: Tensor, kv_ptrs: Tensor, q_block_size: int, kv_block_size: int) -> int:
    """Split the sequences' new tokens into atoms, write one int32 row of `atoms` [rows, 8] per
    atom, and return the number of atoms.
    """
def flash_attn_by_atoms(out: Tensor, q: Tensor, k: Tensor, v: Tensor, attention_atoms: Tensor, softmax_scale: float, is_causal: bool) -> None:
    """Compute attention for queries [tokens, heads * head dim] over key and value caches [blocks,
    block size, KV heads, head dim].
    """
def kv_rotary_embeddings(kv_cache: Tensor, q: Tensor, k: Tensor, v: Tensor, rotary_dim: int, theta_base: float, batch_metadata: Tensor, seq_metadata: Tensor, tokens_to_seq: Tensor, kv_ptrs: Tensor) -> None:
    """Apply rotary embeddings to the queries in place, and write the rotated keys and the values to
    the cache [blocks, block size, 2, KV heads, head dim].
    """
def kv_trained_rotary_embeddings(kv_cache: Tensor, q: Tensor, k: Tensor, v: Tensor, inv_freq: Tensor, batch_metadata: Tensor, seq_metadata: Tensor, tokens_to_seq: Tensor, kv_ptrs: Tensor) -> None:
    """Like kv_rotary_embeddings(), but takes the frequencies [rotated dimensions / 2] as an
    argument.
    """
def linear_kv_copy(kv_cache: Tensor, q: Tensor, k: Tensor, v: Tensor, batch_metadata: Tensor, seq_metadata: Tensor, tokens_to_seq: Tensor, kv_ptrs: Tensor) -> None:
    """Write keys and values to the cache without rotary embeddings."""
def ragged_embed(embedded_tokens: Tensor, input_ids: Tensor, embedding_weight: Tensor, position_embedding_weight: Tensor | None, pos_embed_offset: int, batch_metadata: Tensor, seq_metadata: Tensor, tokens_to_seq: Tensor, kv_ptrs: Tensor) -> None:
    """Write each token's embedding row, plus the row of its position if
    position_embedding_weight is not None."""
def gather_for_logits(final_token_acts: Tensor, all_acts: Tensor, batch_metadata: Tensor, seq_metadata: Tensor) -> None:
    """Copy the row of each sequence's last token to final_token_acts."""
def moe_gather(layer_output: Tensor, moe_output: Tensor, scores: Tensor, mapped_slots: Tensor, expert_count: Tensor, normalize_scales: bool) -> None:
    """Sum each token's expert output rows, weighted by its scores, and reset the expert counts to
    zero.
    """
def moe_scatter(moe_input: Tensor, expert_count_cumsums: Tensor, mapped_slots: Tensor, activations: Tensor, expert_counts: Tensor, assignments: Tensor, offsets: Tensor) -> None:
    """Append each token's row to the input rows of its experts."""
def top_k_gating(expert_counts: Tensor, scores: Tensor, assignments: Tensor, offsets: Tensor, logits: Tensor, batch_metadata: Tensor) -> None:
    """Select each token's best experts. Write their indices, their scores, and the token's position
    among each expert's tokens, and update the expert counts.
    """
