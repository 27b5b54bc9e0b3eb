"""The functions that DeepSpeed's InferenceBuilder().load() returns, with the same names and
arguments: the steps of its injected inference layers.

Their names end in the dtype (`_fp32`, `_bf16`, `_fp16`). Invalid arguments raise ValueError.
"""

import torch

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def _op(name):
    name = "transformer_inference_" + name
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("InferenceBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def _there(given):
    """Return the mask or alibi, or None for the placeholder that DeepSpeed's Python code passes: a
    one-element tensor in host memory.
    """
    return None if given is None or given.dim() < 2 else given


def layer_norm(input, gamma, beta, epsilon):
    """Return the layer norm over the last dimension."""
    return _op("layer_norm")(input, gamma, beta, epsilon)


def _layer_norm_residual(input, bias, residual, gamma, beta, epsilon):
    """Return the layer norm of input + bias + residual."""
    return _op("layer_norm_residual")(input, bias, residual, gamma, beta, epsilon)


def layer_norm_residual_store_pre_ln_res(input, bias, residual, gamma, beta, epsilon):
    """Return the layer norm of input + bias + residual, and that sum."""
    return list(_op("layer_norm_residual_store")(input, bias, residual, gamma, beta, epsilon))


def rms_norm(input, gamma, epsilon):
    """Return the RMS norm over the last dimension."""
    return _op("rms_norm")(input, gamma, epsilon)


def pre_rms_norm(input, residual, gamma, epsilon):
    """Return the RMS norm of input + residual, and that sum."""
    return list(_op("pre_rms_norm")(input, residual, gamma, epsilon))


def gated_activation(activation, bias, actFun):
    """Split the channels of activation + bias into two halves, and return act(first half) * second
    half. act is gelu (actFun=3) or silu (actFun=4).
    """
    if int(actFun) not in (3, 4):
        raise ValueError(f"[gated_activation] not a gated activation; got {int(actFun)}, want 3 (gated gelu) or 4 (gated silu)")
    return _op("bias_activation")(activation, bias, int(actFun))


def _vector_add(a, b, gamma):
    """Compute a = gamma * a + b in place, and return a."""
    _op("vector_add_")(a, b, gamma)
    return a


def apply_rotary_pos_emb(mixed_query, key_layer, rotary_dim, offset, num_heads, rotate_half, rope_theta):
    """Apply rotary position embeddings to query and key [batch, tokens, heads * head dim]. `offset`
    is the position of the first token. Rotates the two halves of a head if `rotate_half` is set,
    otherwise adjacent pairs.
    """
    return list(_op("apply_rotary_pos_emb")(mixed_query, key_layer, rotary_dim, offset, num_heads, rotate_half, rope_theta))


def moe_res_matmul(moe_res, coef, output):
    """Compute output = moe_res * coef1 + output * coef2 in place, and return output.

    `coef` is either the concatenation of coef1 and coef2, which apply to all tokens, or two numbers
    per token.
    """
    _op("moe_res_matmul_")(moe_res, coef, output)
    return output


def reset_cache():
    """Reset the cache, so that the next token starts a new sequence."""
    _op("reset_cache")()


def release_workspace():
    """Free the memory for keys and values."""
    _op("release_workspace")()


def retake_workspace():
    """Return True, because the next prompt allocates the memory again."""
    return True


# The following functions exist once per dtype, with the dtype in their name. Here they take the
# dtype as their first argument, before DeepSpeed's arguments.


def _softmax(dtype, attn_scores, attn_mask, alibi, triangular, recompute, local_attention, window_size, async_op, layer_scale, head_offset, mp_size):
    """Return softmax(attn_scores * layer_scale + alibi + attn_mask) over the positions that
    `triangular` and `local_attention` allow."""
    return _op("softmax")(attn_scores, _there(attn_mask), _there(alibi), triangular, local_attention, window_size, layer_scale, head_offset, mp_size)


def _softmax_context(dtype, query_key_value, attn_mask, rotary_dim, rotate_half, rotate_every_two, heads, num_kv, norm_factor, triangular,
                     local_attention, window_size, no_masking, layer_id, num_layers, alibi, rope_theta, is_prompt, token_idx=None, position_ids=None):
    """Append new keys and values to a layer's cache in the workspace, and compute attention over
    the cache.

    Return the result, the keys and the values. An input of several tokens starts a new prompt.
    """
    return list(_op("softmax_context")(query_key_value, _there(attn_mask), rotary_dim, rotate_half, rotate_every_two, heads, num_kv, norm_factor,
                                       triangular, local_attention, window_size, no_masking, layer_id, num_layers, _there(alibi), rope_theta))


def _bias_gelu(dtype, input, bias):
    """Return gelu(input + bias), with the tanh approximation."""
    return _op("bias_activation")(input, bias, 1)


def _bias_relu(dtype, input, bias):
    """Return relu(input + bias)."""
    return _op("bias_activation")(input, bias, 2)


def _bias_add(dtype, input, bias):
    """Return input + bias."""
    return _op("bias_add")(input, bias)


def _bias_residual(dtype, input, residual, bias):
    """Return input + residual, plus bias if `bias` has more than one element."""
    return _op("bias_residual")(input, residual, bias)


def _qkv_gemm(dtype, input, weight, q_scale, bias, gamma, beta, epsilon, add_bias, q_int8, transposed_mode):
    """Return layer_norm(input) @ weight, and layer_norm(input)."""
    return list(_op("qkv_gemm")(input, weight, q_scale, bias if add_bias else None, gamma, beta, epsilon, q_int8, transposed_mode))


def _rms_qkv_gemm(dtype, input, weight, q_scale, gamma, epsilon, q_int8, transposed_mode):
    """Return rms_norm(input) @ weight, and rms_norm(input)."""
    return list(_op("qkv_gemm")(input, weight, q_scale, None, gamma, None, epsilon, q_int8, transposed_mode))


def _mlp_gemm(dtype, input, residual, input_bias, weight_interm, weight_out, bias, gamma, beta, epsilon, preLayerNorm, mlp_after_attn, q_scale,
              q_scale1, q_int8, activation_type, transposed_mode):
    """Return the output of the feed-forward block (layer norm, matmul, activation, matmul), and the
    output of its layer norm.
    """
    return list(_op("mlp_gemm")(input, residual, input_bias, weight_interm, weight_out, bias, gamma, beta, epsilon, mlp_after_attn, q_scale, q_scale1,
                                q_int8, int(activation_type), transposed_mode))


def _rms_mlp_gemm(dtype, input, residual, weight_interm, weight_out, gamma, epsilon, q_scale, q_scale1, q_int8, activation_type, transposed_mode):
    """Return the result of the feed-forward part (RMS norm of input + residual, matmul, activation,
    matmul), and input + residual.

    `residual` is unchanged, because DeepSpeed's Python code adds to it again.
    """
    return list(_op("rms_mlp_gemm")(input, residual, weight_interm, weight_out, gamma, epsilon, q_scale, q_scale1, q_int8, int(activation_type),
                                    transposed_mode))


def _vector_matmul(dtype, input, weight, async_op, q_scale, q_int8, transposed_mode):
    """Return input @ weight."""
    return _op("vector_matmul")(input, weight, q_scale, q_int8, transposed_mode)


def _linear_layer(dtype, input, weight, bias, add_bias, do_flash_attn, num_heads, transposed_mode, rope_theta):
    """Return input @ weight + bias.

    With do_flash_attn, the result is [3, batch, heads, tokens, head dim], with head dim zero-padded
    to 32, 64 or 128.
    """
    return _op("linear_layer")(input, weight, bias if add_bias else None, do_flash_attn, num_heads, transposed_mode)


def _fused_gemm_gelu(dtype, input, weight, weight_scale, bias, weight_out, weight_out_scale, q_int8, transposed_mode):
    """Return gelu(input @ weight + bias) @ weight_out."""
    return _op("fused_gemm_gelu")(input, weight, weight_scale, bias, weight_out, weight_out_scale, q_int8, transposed_mode)


def _residual_add_bias(dtype, hidden_state, residual, attention_output, attention_bias, final_bias, mp_size, mlp_after_attn, add_bias, preln):
    """Add the biases and residuals at the end of a layer to `residual` in place, and return it."""
    _op("residual_add_bias_")(hidden_state, residual, attention_output, attention_bias, final_bias, mp_size, mlp_after_attn, add_bias, preln)
    return residual


def _einsum_sec_sm_ecm(dtype, Q, W):
    """Contract [tokens, experts, capacity] and [tokens, channels] to [experts, capacity,
    channels]."""
    return _op("einsum_sec_sm_ecm")(Q, W)


def _add_padding(dtype, query, key, value):
    """Zero-pad tensors [batch, heads, tokens, head dim] to a head dim of 32, 64 or 128. Also
    pad keys and values to 128 tokens.
    """
    return list(_op("add_padding")(query, key, value))


def _pad_transform(dtype, query, key, value, heads, add_padding):
    """Return tensors [batch, tokens, heads * head dim] as [batch, heads, tokens, head dim],
    padded if `add_padding` is set."""
    return list(_op("pad_transform")(query, key, value, heads, add_padding))


def _allocate_workspace(dtype, hidden_dim, num_heads, prompt_length, batch_size, num_layers, mp_size=1, external_cache=False, rank=0,
                        max_out_tokens=1024, min_out_tokens=1):
    """Set the workspace's capacity in tokens per layer. The memory is allocated when a prompt is
    processed.
    """
    _op("allocate_workspace")(num_layers, batch_size, max_out_tokens)


def _repeat_kv_cache(dtype, source_batch_size, repeats):
    """Repeat each batch entry of the cache `repeats` times in all layers.

    Return a list that alternates between each layer's keys and values.
    """
    return _op("repeat_kv_cache")(source_batch_size, repeats, dtype)


def _dequantize(dtype, weight, qscale, groups):
    """Dequantize int8 weights [outputs, inputs] to the dtype. Each group of rows has its own scale.
    """
    return _op("dequantize")(weight, qscale, groups, dtype)


def _of_each_dtype():
    import functools
    import inspect
    for name, function in list(globals().items()):
        if not inspect.isfunction(function) or next(iter(inspect.signature(function).parameters), None) != "dtype":
            continue
        for suffix, dtype in _DTYPES.items():
            made = functools.partial(function, dtype)
            made.__doc__, made.__name__ = function.__doc__, f"{name[1:]}_{suffix}"
            globals()[made.__name__] = made


_of_each_dtype()
