"""Fills a Hugging Face hub cache with small random checkpoints, so that tests can load models by
name without a network.

Usage: python checkpoints.py CACHE NAME...
"""
import hashlib
import pathlib
import sys

# (configuration class, its arguments, model class). The model class is None if the tests load only
# the configuration.
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 1000}
GPT2 = ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 1000, "n_positions": 128}, "GPT2LMHeadModel")
LLAMA = ("LlamaConfig", {**SMALL, "num_key_value_heads": 2}, "LlamaForCausalLM")
OPT = ("OPTConfig", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64, "vocab_size": 1000,
                     "word_embed_proj_dim": 32, "max_position_embeddings": 128}, "OPTForCausalLM")
BERT = ("BertConfig", SMALL, "BertForSequenceClassification")
BLOOM = ("BloomConfig", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 1000}, "BloomModel")
T5 = ("T5Config", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 1000},
      "T5ForConditionalGeneration")
T0PP = ("T5Config", {"d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_heads": 64}, None)
MISTRAL = ("MistralConfig", {**SMALL, "num_key_value_heads": 2}, "MistralForCausalLM")
QWEN2 = ("Qwen2Config", {**SMALL, "num_key_value_heads": 2}, "Qwen2ForCausalLM")
MODELS = {
    "bert-base-cased": BERT, "bert-base-uncased": BERT, "peft-internal-testing/tiny-random-BertModel": BERT,
    "bigscience/T0pp": T0PP, "google/flan-t5-base": T5, "peft-internal-testing/tiny-random-t5": T5,
    "bigscience/bloom-560m": BLOOM,
    "facebook/opt-125m": OPT, "facebook/opt-350m": OPT, "peft-internal-testing/opt-125m": OPT,
    "peft-internal-testing/tiny-random-OPTForCausalLM": OPT,
    "gpt2": GPT2, "openai-community/gpt2": GPT2, "sshleifer/tiny-gpt2": GPT2, "hf-internal-testing/tiny-random-gpt2": GPT2,
    "peft-internal-testing/tiny-random-gpt2": GPT2,
    "hf-internal-testing/tiny-random-LlamaForCausalLM": LLAMA, "trl-internal-testing/tiny-random-LlamaForCausalLM": LLAMA,
    "hf-internal-testing/tiny-random-MistralForCausalLM": MISTRAL,
    "trl-internal-testing/tiny-Qwen2ForCausalLM-2.5": QWEN2,
}


def make(cache, name):
    """Write the checkpoint `name` into the folder `cache`, in the layout of huggingface_hub."""
    import torch
    import transformers
    config_class, arguments, model_class = MODELS[name]
    config = getattr(transformers, config_class)(**arguments)
    revision = hashlib.sha1(name.encode()).hexdigest()
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs/main").write_text(revision)
    snapshot = folder / "snapshots" / revision
    config.save_pretrained(snapshot)
    if model_class is None:
        return
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(config)
    model.save_pretrained(snapshot)
    torch.save(model.state_dict(), snapshot / "pytorch_model.bin")


if __name__ == "__main__":
    for each in sys.argv[2:]:
        make(pathlib.Path(sys.argv[1]), each)
