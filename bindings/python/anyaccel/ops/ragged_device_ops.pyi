from torch import Tensor

def build_atoms(atoms: Tensor, batch_metadata: Tensor, seq_metadata: Tensor, kv_ptrs: Tensor, q_block_size: int, kv_block_size: int) -> int:
    """Parts the sequences' new tokens into atoms, rows of int32 [atoms, 8]; returns how many."""
def flash_attn_by_atoms(out: Tensor, q: Tensor, k: Tensor, v: Tensor, attention_atoms: Tensor, softmax_scale: float, is_causal: bool) -> None:
    """Attention of queries [tokens, heads * head dim] over caches [blocks, block size, heads of keys, head dim]."""
def kv_rotary_embeddings(kv_cache: Tensor, q: Tensor, k: Tensor, v: Tensor, rotary_dim: int, theta_base: float, batch_metadata: Tensor, seq_metadata: Tensor, tokens_to_seq: Tensor, kv_ptrs: Tensor) -> None:
    """Turns queries in place, and puts turned keys, and values, into the cache [blocks, block size, 2, heads of keys, head dim]."""
def kv_trained_rotary_embeddings(kv_cache: Tensor, q: Tensor, k: Tensor, v: Tensor, inv_freq: Tensor, batch_metadata: Tensor, seq_metadata: Tensor, tokens_to_seq: Tensor, kv_ptrs: Tensor) -> None:
    """The same by given frequencies [rotated dimensions / 2]."""
def linear_kv_copy(kv_cache: Tensor, q: Tensor, k: Tensor, v: Tensor, batch_metadata: Tensor, seq_metadata: Tensor, tokens_to_seq: Tensor, kv_ptrs: Tensor) -> None:
    """Puts keys and values into the cache as they are."""
def ragged_embed(embedded_tokens: Tensor, input_ids: Tensor, embedding_weight: Tensor, position_embedding_weight: Tensor | None, pos_embed_offset: int, batch_metadata: Tensor, seq_metadata: Tensor, tokens_to_seq: Tensor, kv_ptrs: Tensor) -> None:
    """Each token's row of the embedding, and of its place's where position_embedding_weight is not None."""
def gather_for_logits(final_token_acts: Tensor, all_acts: Tensor, batch_metadata: Tensor, seq_metadata: Tensor) -> None:
    """The last token's row of each sequence."""
def moe_gather(layer_output: Tensor, moe_output: Tensor, scores: Tensor, mapped_slots: Tensor, expert_count: Tensor, normalize_scales: bool) -> None:
    """Each token's rows from its experts, times its scores, summed; the counts become zeros."""
def moe_scatter(moe_input: Tensor, expert_count_cumsums: Tensor, mapped_slots: Tensor, activations: Tensor, expert_counts: Tensor, assignments: Tensor, offsets: Tensor) -> None:
    """Puts each token's row behind the others of its experts."""
def top_k_gating(expert_counts: Tensor, scores: Tensor, assignments: Tensor, offsets: Tensor, logits: Tensor, batch_metadata: Tensor) -> None:
    """Each token's best experts, their shares, and its place among their tokens, which are counted on."""
