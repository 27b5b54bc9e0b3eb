"""Small transformers models with random weights from a seed. Nothing is downloaded."""

import torch
import transformers

WORDS = 96
SIZES = {"vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
# name: (class, configuration class, differences from the default)
MODELS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**SIZES, "num_key_value_heads": 2}),
    "opt": ("OPTForCausalLM", "OPTConfig", {**SIZES, "ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 64}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "bert": ("BertForMaskedLM", "BertConfig", SIZES),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**SIZES, "num_key_value_heads": 2}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**SIZES, "num_key_value_heads": 2}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**SIZES, "num_key_value_heads": 2, "head_dim": 8}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {**SIZES, "num_key_value_heads": 2, "head_dim": 8}),
    "phi": ("PhiForCausalLM", "PhiConfig", SIZES),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SIZES),
    "gpt_neo": ("GPTNeoForCausalLM", "GPTNeoConfig", {"vocab_size": WORDS, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 4,
                                                      "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64}),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4}),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", {**SIZES, "max_position_embeddings": 64, "pad_token_id": 1}),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig", {"vocab_size": WORDS, "dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}),
    "t5": ("T5ForConditionalGeneration", "T5Config", {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
                                                      "decoder_start_token_id": 0}),
}
# Options for models whose layers DeepSpeed's inference layers can replace. They require an
# intermediate size of four times the hidden size (except llama), a key head per query head, and
# gelu with tanh.
_WIDE, _GELU = {"intermediate_size": 128}, {"hidden_act": "gelu_new"}
INJECTED = {
    "llama": {**_WIDE, "num_key_value_heads": 4},
    "opt": {"ffn_dim": 128},
    "bert": {**_WIDE, **_GELU},
    "roberta": {**_WIDE, **_GELU},
    "gpt_neox": {**_WIDE, **_GELU, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
    "distilbert": {"hidden_dim": 128, "activation": "gelu_new"},
}


def make(name, seed=0, **options):
    """Return the model in evaluation mode. Its weights are larger than usual initial weights, so
    that logits differ between tokens.
    """
    cls, config, differences = MODELS[name]
    torch.manual_seed(seed)
    # Tests compare models with the same seed, so dropout is disabled.
    off = {key: 0.0 for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop", "dropout", "attention_dropout", "hidden_dropout_prob",
                                "attention_probs_dropout_prob", "hidden_dropout", "dropout_rate", "activation_dropout", "resid_dropout",
                                "embd_dropout")}
    made = getattr(transformers, config)()
    off = {key: value for key, value in off.items() if hasattr(made, key)}
    model = getattr(transformers, cls)(getattr(transformers, config)(**{**off, **differences, **options}))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.15)
    return model.eval()


def words(rows=2, length=9, seed=1):
    return torch.randint(3, WORDS, (rows, length), generator=torch.Generator().manual_seed(seed))


def inputs(name, seed=1):
    given = {"input_ids": words(seed=seed)}
    if name == "t5":
        given["decoder_input_ids"] = words(length=5, seed=seed + 1)
    return given
