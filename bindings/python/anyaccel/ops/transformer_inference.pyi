from torch import Tensor

def layer_norm(input: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Return the layer norm over the last dimension."""
def _layer_norm_residual(input: Tensor, bias: Tensor | None, residual: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Return the layer norm of input + bias + residual."""
def layer_norm_residual_store_pre_ln_res(input: Tensor, bias: Tensor | None, residual: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> list[Tensor]:
    """Return the layer norm of input + bias + residual, and that sum."""
def rms_norm(input: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """Return the RMS norm over the last dimension."""
def pre_rms_norm(input: Tensor, residual: Tensor, gamma: Tensor, epsilon: float) -> list[Tensor]:
    """Return the RMS norm of input + residual, and that sum."""
def gated_activation(activation: Tensor, bias: Tensor | None, actFun: int) -> Tensor:
    """Split the channels of activation + bias into two halves, and return act(first half) * second
    half. act is gelu (actFun=3) or silu (actFun=4).
    """
def _vector_add(a: Tensor, b: Tensor, gamma: float) -> Tensor:
    """Compute a = gamma * a + b in place, and return a."""
def apply_rotary_pos_emb(mixed_query: Tensor, key_layer: Tensor, rotary_dim: int, offset: int, num_heads: int, rotate_half: bool, rope_theta: float) -> list[Tensor]:
    """Apply rotary position embeddings to query and key [batch, tokens, heads * head dim]. `offset`
    is the position of the first token. Rotates the two halves of a head if `rotate_half` is set,
    otherwise adjacent pairs.
    """
def moe_res_matmul(moe_res: Tensor, coef: Tensor, output: Tensor) -> Tensor:
    """Compute output = moe_res * coef1 + output * coef2 in place, and return output.

    `coef` is either the concatenation of coef1 and coef2, which apply to all tokens, or two numbers
    per token.
    """
def reset_cache() -> None:
    """Reset the cache, so that the next token starts a new sequence."""
def release_workspace() -> None:
    """Free the memory for keys and values."""
def retake_workspace() -> bool:
    """Return True, because the next prompt allocates the memory again."""
def softmax_fp32(attn_scores: Tensor, attn_mask: Tensor | None, alibi: Tensor | None, triangular: bool, recompute: bool, local_attention: bool, window_size: int, async_op: bool, layer_scale: float, head_offset: int, mp_size: int) -> Tensor:
    """Return softmax(attn_scores * layer_scale + alibi + attn_mask) over the positions that
    `triangular` and `local_attention` allow."""
def softmax_bf16(attn_scores: Tensor, attn_mask: Tensor | None, alibi: Tensor | None, triangular: bool, recompute: bool, local_attention: bool, window_size: int, async_op: bool, layer_scale: float, head_offset: int, mp_size: int) -> Tensor:
    """Return softmax(attn_scores * layer_scale + alibi + attn_mask) over the positions that
    `triangular` and `local_attention` allow."""
def softmax_fp16(attn_scores: Tensor, attn_mask: Tensor | None, alibi: Tensor | None, triangular: bool, recompute: bool, local_attention: bool, window_size: int, async_op: bool, layer_scale: float, head_offset: int, mp_size: int) -> Tensor:
    """Return softmax(attn_scores * layer_scale + alibi + attn_mask) over the positions that
    `triangular` and `local_attention` allow."""
def softmax_context_fp32(query_key_value: Tensor, attn_mask: Tensor | None, rotary_dim: int, rotate_half: bool, rotate_every_two: bool, heads: int, num_kv: int, norm_factor: float, triangular: bool, local_attention: bool, window_size: int, no_masking: bool, layer_id: int, num_layers: int, alibi: Tensor | None, rope_theta: float, is_prompt: bool, token_idx: Tensor | None = None, position_ids: Tensor | None = None) -> list[Tensor]:
    """Append new keys and values to a layer's cache in the workspace, and compute attention over
    the cache.

    Return the result, the keys and the values. An input of several tokens starts a new prompt.
    """
def softmax_context_bf16(query_key_value: Tensor, attn_mask: Tensor | None, rotary_dim: int, rotate_half: bool, rotate_every_two: bool, heads: int, num_kv: int, norm_factor: float, triangular: bool, local_attention: bool, window_size: int, no_masking: bool, layer_id: int, num_layers: int, alibi: Tensor | None, rope_theta: float, is_prompt: bool, token_idx: Tensor | None = None, position_ids: Tensor | None = None) -> list[Tensor]:
    """Append new keys and values to a layer's cache in the workspace, and compute attention over
    the cache.

    Return the result, the keys and the values. An input of several tokens starts a new prompt.
    """
def softmax_context_fp16(query_key_value: Tensor, attn_mask: Tensor | None, rotary_dim: int, rotate_half: bool, rotate_every_two: bool, heads: int, num_kv: int, norm_factor: float, triangular: bool, local_attention: bool, window_size: int, no_masking: bool, layer_id: int, num_layers: int, alibi: Tensor | None, rope_theta: float, is_prompt: bool, token_idx: Tensor | None = None, position_ids: Tensor | None = None) -> list[Tensor]:
    """Append new keys and values to a layer's cache in the workspace, and compute attention over
    the cache.

    Return the result, the keys and the values. An input of several tokens starts a new prompt.
    """
def bias_gelu_fp32(input: Tensor, bias: Tensor | None) -> Tensor:
    """Return gelu(input + bias), with the tanh approximation."""
def bias_gelu_bf16(input: Tensor, bias: Tensor | None) -> Tensor:
    """Return gelu(input + bias), with the tanh approximation."""
def bias_gelu_fp16(input: Tensor, bias: Tensor | None) -> Tensor:
    """Return gelu(input + bias), with the tanh approximation."""
def bias_relu_fp32(input: Tensor, bias: Tensor | None) -> Tensor:
    """Return relu(input + bias)."""
def bias_relu_bf16(input: Tensor, bias: Tensor | None) -> Tensor:
    """Return relu(input + bias)."""
def bias_relu_fp16(input: Tensor, bias: Tensor | None) -> Tensor:
    """Return relu(input + bias)."""
def bias_add_fp32(input: Tensor, bias: Tensor | None) -> Tensor:
    """Return input + bias."""
def bias_add_bf16(input: Tensor, bias: Tensor | None) -> Tensor:
    """Return input + bias."""
def bias_add_fp16(input: Tensor, bias: Tensor | None) -> Tensor:
    """Return input + bias."""
def bias_residual_fp32(input: Tensor, residual: Tensor, bias: Tensor | None) -> Tensor:
    """Return input + residual, plus bias if `bias` has more than one element."""
def bias_residual_bf16(input: Tensor, residual: Tensor, bias: Tensor | None) -> Tensor:
    """Return input + residual, plus bias if `bias` has more than one element."""
def bias_residual_fp16(input: Tensor, residual: Tensor, bias: Tensor | None) -> Tensor:
    """Return input + residual, plus bias if `bias` has more than one element."""
def qkv_gemm_fp32(input: Tensor, weight: Tensor, q_scale: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float, add_bias: bool, q_int8: bool, transposed_mode: bool) -> list[Tensor]:
    """Return layer_norm(input) @ weight, and layer_norm(input)."""
def qkv_gemm_bf16(input: Tensor, weight: Tensor, q_scale: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float, add_bias: bool, q_int8: bool, transposed_mode: bool) -> list[Tensor]:
    """Return layer_norm(input) @ weight, and layer_norm(input)."""
def qkv_gemm_fp16(input: Tensor, weight: Tensor, q_scale: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float, add_bias: bool, q_int8: bool, transposed_mode: bool) -> list[Tensor]:
    """Return layer_norm(input) @ weight, and layer_norm(input)."""
def rms_qkv_gemm_fp32(input: Tensor, weight: Tensor, q_scale: Tensor, gamma: Tensor, epsilon: float, q_int8: bool, transposed_mode: bool) -> list[Tensor]:
    """Return rms_norm(input) @ weight, and rms_norm(input)."""
def rms_qkv_gemm_bf16(input: Tensor, weight: Tensor, q_scale: Tensor, gamma: Tensor, epsilon: float, q_int8: bool, transposed_mode: bool) -> list[Tensor]:
    """Return rms_norm(input) @ weight, and rms_norm(input)."""
def rms_qkv_gemm_fp16(input: Tensor, weight: Tensor, q_scale: Tensor, gamma: Tensor, epsilon: float, q_int8: bool, transposed_mode: bool) -> list[Tensor]:
    """Return rms_norm(input) @ weight, and rms_norm(input)."""
def mlp_gemm_fp32(input: Tensor, residual: Tensor, input_bias: Tensor | None, weight_interm: Tensor, weight_out: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float, preLayerNorm: bool, mlp_after_attn: bool, q_scale: Tensor, q_scale1: Tensor, q_int8: bool, activation_type: int, transposed_mode: bool) -> list[Tensor]:
    """Return the result of the feed-forward part (layer norm, matmul, activation, matmul), and the
    layer norm.
    """
def mlp_gemm_bf16(input: Tensor, residual: Tensor, input_bias: Tensor | None, weight_interm: Tensor, weight_out: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float, preLayerNorm: bool, mlp_after_attn: bool, q_scale: Tensor, q_scale1: Tensor, q_int8: bool, activation_type: int, transposed_mode: bool) -> list[Tensor]:
    """Return the result of the feed-forward part (layer norm, matmul, activation, matmul), and the
    layer norm.
    """
def mlp_gemm_fp16(input: Tensor, residual: Tensor, input_bias: Tensor | None, weight_interm: Tensor, weight_out: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float, preLayerNorm: bool, mlp_after_attn: bool, q_scale: Tensor, q_scale1: Tensor, q_int8: bool, activation_type: int, transposed_mode: bool) -> list[Tensor]:
    """Return the result of the feed-forward part (layer norm, matmul, activation, matmul), and the
    layer norm.
    """
def rms_mlp_gemm_fp32(input: Tensor, residual: Tensor, weight_interm: Tensor, weight_out: Tensor, gamma: Tensor, epsilon: float, q_scale: Tensor, q_scale1: Tensor, q_int8: bool, activation_type: int, transposed_mode: bool) -> list[Tensor]:
    """Return the result of the feed-forward part (RMS norm of input + residual, matmul, activation,
    matmul), and input + residual.

    `residual` is unchanged, because DeepSpeed's Python code adds to it again.
    """
def rms_mlp_gemm_bf16(input: Tensor, residual: Tensor, weight_interm: Tensor, weight_out: Tensor, gamma: Tensor, epsilon: float, q_scale: Tensor, q_scale1: Tensor, q_int8: bool, activation_type: int, transposed_mode: bool) -> list[Tensor]:
    """Return the result of the feed-forward part (RMS norm of input + residual, matmul, activation,
    matmul), and input + residual.

    `residual` is unchanged, because DeepSpeed's Python code adds to it again.
    """
def rms_mlp_gemm_fp16(input: Tensor, residual: Tensor, weight_interm: Tensor, weight_out: Tensor, gamma: Tensor, epsilon: float, q_scale: Tensor, q_scale1: Tensor, q_int8: bool, activation_type: int, transposed_mode: bool) -> list[Tensor]:
    """Return the result of the feed-forward part (RMS norm of input + residual, matmul, activation,
    matmul), and input + residual.

    `residual` is unchanged, because DeepSpeed's Python code adds to it again.
    """
def vector_matmul_fp32(input: Tensor, weight: Tensor, async_op: bool, q_scale: Tensor, q_int8: bool, transposed_mode: bool) -> Tensor:
    """Return input @ weight."""
def vector_matmul_bf16(input: Tensor, weight: Tensor, async_op: bool, q_scale: Tensor, q_int8: bool, transposed_mode: bool) -> Tensor:
    """Return input @ weight."""
def vector_matmul_fp16(input: Tensor, weight: Tensor, async_op: bool, q_scale: Tensor, q_int8: bool, transposed_mode: bool) -> Tensor:
    """Return input @ weight."""
def linear_layer_fp32(input: Tensor, weight: Tensor, bias: Tensor | None, add_bias: bool, do_flash_attn: bool, num_heads: int, transposed_mode: bool, rope_theta: float) -> Tensor:
    """Return input @ weight + bias.

    With do_flash_attn, the result is [3, batch, heads, tokens, head dim], with head dim zero-padded
    to 32, 64 or 128.
    """
def linear_layer_bf16(input: Tensor, weight: Tensor, bias: Tensor | None, add_bias: bool, do_flash_attn: bool, num_heads: int, transposed_mode: bool, rope_theta: float) -> Tensor:
    """Return input @ weight + bias.

    With do_flash_attn, the result is [3, batch, heads, tokens, head dim], with head dim zero-padded
    to 32, 64 or 128.
    """
def linear_layer_fp16(input: Tensor, weight: Tensor, bias: Tensor | None, add_bias: bool, do_flash_attn: bool, num_heads: int, transposed_mode: bool, rope_theta: float) -> Tensor:
    """Return input @ weight + bias.

    With do_flash_attn, the result is [3, batch, heads, tokens, head dim], with head dim zero-padded
    to 32, 64 or 128.
    """
def fused_gemm_gelu_fp32(input: Tensor, weight: Tensor, weight_scale: Tensor, bias: Tensor | None, weight_out: Tensor, weight_out_scale: Tensor, q_int8: bool, transposed_mode: bool) -> Tensor:
    """Return gelu(input @ weight + bias) @ weight_out."""
def fused_gemm_gelu_bf16(input: Tensor, weight: Tensor, weight_scale: Tensor, bias: Tensor | None, weight_out: Tensor, weight_out_scale: Tensor, q_int8: bool, transposed_mode: bool) -> Tensor:
    """Return gelu(input @ weight + bias) @ weight_out."""
def fused_gemm_gelu_fp16(input: Tensor, weight: Tensor, weight_scale: Tensor, bias: Tensor | None, weight_out: Tensor, weight_out_scale: Tensor, q_int8: bool, transposed_mode: bool) -> Tensor:
    """Return gelu(input @ weight + bias) @ weight_out."""
def residual_add_bias_fp32(hidden_state: Tensor, residual: Tensor, attention_output: Tensor, attention_bias: Tensor | None, final_bias: Tensor | None, mp_size: int, mlp_after_attn: bool, add_bias: bool, preln: bool) -> Tensor:
    """Add the biases and residuals at the end of a layer to `residual` in place, and return it."""
def residual_add_bias_bf16(hidden_state: Tensor, residual: Tensor, attention_output: Tensor, attention_bias: Tensor | None, final_bias: Tensor | None, mp_size: int, mlp_after_attn: bool, add_bias: bool, preln: bool) -> Tensor:
    """Add the biases and residuals at the end of a layer to `residual` in place, and return it."""
def residual_add_bias_fp16(hidden_state: Tensor, residual: Tensor, attention_output: Tensor, attention_bias: Tensor | None, final_bias: Tensor | None, mp_size: int, mlp_after_attn: bool, add_bias: bool, preln: bool) -> Tensor:
    """Add the biases and residuals at the end of a layer to `residual` in place, and return it."""
def einsum_sec_sm_ecm_fp32(Q: Tensor, W: Tensor) -> Tensor:
    """Contract [tokens, experts, capacity] and [tokens, channels] to [experts, capacity,
    channels]."""
def einsum_sec_sm_ecm_bf16(Q: Tensor, W: Tensor) -> Tensor:
    """Contract [tokens, experts, capacity] and [tokens, channels] to [experts, capacity,
    channels]."""
def einsum_sec_sm_ecm_fp16(Q: Tensor, W: Tensor) -> Tensor:
    """Contract [tokens, experts, capacity] and [tokens, channels] to [experts, capacity,
    channels]."""
def add_padding_fp32(query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """Zero-pad tensors [batch, heads, tokens, head dim] to a head dim of 32, 64 or 128, and keys
    and values also to 128 tokens.
    """
def add_padding_bf16(query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """Zero-pad tensors [batch, heads, tokens, head dim] to a head dim of 32, 64 or 128, and keys
    and values also to 128 tokens.
    """
def add_padding_fp16(query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """Zero-pad tensors [batch, heads, tokens, head dim] to a head dim of 32, 64 or 128, and keys
    and values also to 128 tokens.
    """
def pad_transform_fp32(query: Tensor, key: Tensor, value: Tensor, heads: int, add_padding: bool) -> list[Tensor]:
    """Return tensors [batch, tokens, heads * head dim] as [batch, heads, tokens, head dim],
    padded if `add_padding` is set."""
def pad_transform_bf16(query: Tensor, key: Tensor, value: Tensor, heads: int, add_padding: bool) -> list[Tensor]:
    """Return tensors [batch, tokens, heads * head dim] as [batch, heads, tokens, head dim],
    padded if `add_padding` is set."""
def pad_transform_fp16(query: Tensor, key: Tensor, value: Tensor, heads: int, add_padding: bool) -> list[Tensor]:
    """Return tensors [batch, tokens, heads * head dim] as [batch, heads, tokens, head dim],
    padded if `add_padding` is set."""
def allocate_workspace_fp32(hidden_dim: int, num_heads: int, prompt_length: int, batch_size: int, num_layers: int, mp_size: int = 1, external_cache: bool = False, rank: int = 0, max_out_tokens: int = 1024, min_out_tokens: int = 1) -> None:
    """Set the workspace's capacity in tokens per layer. The memory is allocated when a prompt is
    processed.
    """
def allocate_workspace_bf16(hidden_dim: int, num_heads: int, prompt_length: int, batch_size: int, num_layers: int, mp_size: int = 1, external_cache: bool = False, rank: int = 0, max_out_tokens: int = 1024, min_out_tokens: int = 1) -> None:
    """Set the workspace's capacity in tokens per layer. The memory is allocated when a prompt is
    processed.
    """
def allocate_workspace_fp16(hidden_dim: int, num_heads: int, prompt_length: int, batch_size: int, num_layers: int, mp_size: int = 1, external_cache: bool = False, rank: int = 0, max_out_tokens: int = 1024, min_out_tokens: int = 1) -> None:
    """Set the workspace's capacity in tokens per layer. The memory is allocated when a prompt is
    processed.
    """
def repeat_kv_cache_fp32(source_batch_size: int, repeats: int) -> list[Tensor]:
    """Repeat each batch entry of the cache `repeats` times in all layers.

    Return a list that alternates between each layer's keys and values.
    """
def repeat_kv_cache_bf16(source_batch_size: int, repeats: int) -> list[Tensor]:
    """Repeat each batch entry of the cache `repeats` times in all layers.

    Return a list that alternates between each layer's keys and values.
    """
def repeat_kv_cache_fp16(source_batch_size: int, repeats: int) -> list[Tensor]:
    """Repeat each batch entry of the cache `repeats` times in all layers.

    Return a list that alternates between each layer's keys and values.
    """
def dequantize_fp32(weight: Tensor, qscale: Tensor, groups: int) -> Tensor:
    """Dequantize int8 weights [outputs, inputs] to the dtype. Each group of rows has its own scale.
    """
def dequantize_bf16(weight: Tensor, qscale: Tensor, groups: int) -> Tensor:
    """Dequantize int8 weights [outputs, inputs] to the dtype. Each group of rows has its own scale.
    """
def dequantize_fp16(weight: Tensor, qscale: Tensor, groups: int) -> Tensor:
    """Dequantize int8 weights [outputs, inputs] to the dtype. Each group of rows has its own scale.
    """
