"""Small configurations of every model family, for comparisons with transformers."""
SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=160, initializer_range=0.12, bos_token_id=0, eos_token_id=None, pad_token_id=None)


def yarn(**more):
    return dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=10000.0, **more)


def longrope(pairs, **more):
    return dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0 + 0.1 * i for i in range(pairs)],
                long_factor=[2.0 + i for i in range(pairs)], **more)


OPT = dict(ffn_dim=48, init_std=0.12)
# Family, variant, and changes to its config. The first variant of each family runs on sim too.
CASES = [
    ("Llama", "plain", dict()),
    ("Llama", "tied, biases, shards", dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, shard="10KB")),
    ("Llama", "yarn", dict(rope_parameters=yarn())),
    ("Llama", "yarn with options", dict(rope_parameters=yarn(mscale=0.7, mscale_all_dim=0.4, beta_fast=8.0, beta_slow=2.0, truncate=False))),
    ("Llama", "exact gelu", dict(hidden_act="gelu")),
    ("Llama", "tanh gelu", dict(hidden_act="gelu_pytorch_tanh", mlp_bias=True)),
    ("Llama", "relu", dict(hidden_act="relu")),
    ("Llama", "squared relu", dict(hidden_act="relu2")),
    ("Mistral", "sliding window", dict(sliding_window=6)),
    ("Mistral", "no window, custom head_dim", dict(sliding_window=None, head_dim=12)),
    ("Qwen2", "plain", dict()),
    ("Qwen2", "sliding window in upper layers", dict(use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    ("Qwen2", "yarn, tied", dict(rope_parameters=yarn(), tie_word_embeddings=True)),
    ("Qwen3", "plain", dict(head_dim=16)),
    ("Qwen3", "sliding window per layer, biases", dict(head_dim=8, attention_bias=True, use_sliding_window=True, sliding_window=4,
                                                       layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    ("Phi3", "plain", dict()),
    ("Phi3", "partial rotary embedding, sliding window", dict(partial_rotary_factor=0.5, sliding_window=7)),
    ("Phi3", "longrope, past the original context", dict(rope_parameters=longrope(4), original_max_position_embeddings=40)),
    ("Gemma2", "soft caps", dict(head_dim=8, sliding_window=6, query_pre_attn_scalar=20, attn_logit_softcapping=3.0, final_logit_softcapping=5.0)),
    ("Gemma2", "no soft caps", dict(head_dim=8, sliding_window=6, attn_logit_softcapping=None, final_logit_softcapping=None)),
    ("Gemma2", "squared relu", dict(head_dim=8, sliding_window=6, hidden_activation="relu2")),
    ("Gemma3Text", "two rotary embeddings", dict(head_dim=8, sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    ("Mixtral", "plain", dict(num_local_experts=5, num_experts_per_tok=2)),
    ("Mixtral", "squared relu", dict(num_local_experts=5, num_experts_per_tok=2, hidden_act="relu2")),
    ("Phi3", "gelu", dict(hidden_act="gelu_new")),
    ("Qwen3Moe", "gelu", dict(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, hidden_act="gelu")),
    ("Qwen3Moe", "dense and expert layers", dict(head_dim=8, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24, mlp_only_layers=[1])),
    ("Qwen3Moe", "normalized expert weights", dict(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True)),
    ("GPT2", "plain", dict()),
    ("GPT2", "custom n_inner, scores scaled by layer, untied, shards", dict(n_inner=40, activation_function="relu", tie_word_embeddings=False,
                                                                            scale_attn_by_inverse_layer_idx=True, shard="10KB")),
    ("GPT2", "exact gelu, unscaled scores, names without prefix", dict(activation_function="gelu", scale_attn_weights=False, bare=True)),
    ("OPT", "plain", OPT),
    ("OPT", "post norm, narrow embeddings", dict(OPT, do_layer_norm_before=False, word_embed_proj_dim=20)),
    ("OPT", "no biases, norms without weights", dict(OPT, enable_bias=False, layer_norm_elementwise_affine=False, activation_function="gelu")),
]
