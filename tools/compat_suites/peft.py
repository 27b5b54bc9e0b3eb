"""Tests of Hugging Face PEFT that run on the GPU. test_custom_models.py has 18000 tests; the suite
selects those that train one adapter and those that combine several."""
from .hugging_face import Suite

# Tests of other adapters. Files that load checkpoints from the hub are not selected.
WHOLE = ("test_adamss_asa.py", "test_adaption_prompt.py", "test_bdlora.py", "test_deft.py", "test_frod.py",
         "test_lora_variants.py", "test_lorafa.py", "test_loraplus.py", "test_mixed.py", "test_pvera.py",
         "test_randlora.py", "test_riemannian_lora.py", "test_shira.py", "test_trainable_tokens.py", "test_unilora.py",
         "test_vblora.py", "test_velora.py", "test_vera.py")

SUITE = Suite(
    "Hugging Face PEFT",
    files={"test_custom_models.py": ("TestPeftCustomModel::test_training_custom_models", "TestMultipleActiveAdapters"),
           **dict.fromkeys(WHOLE, ())},
    models=("bert-base-uncased", "facebook/opt-125m", "gpt2", "hf-internal-testing/tiny-random-gpt2",
            "hf-internal-testing/tiny-random-LlamaForCausalLM", "hf-internal-testing/tiny-random-MistralForCausalLM",
            "openai-community/gpt2", "peft-internal-testing/opt-125m", "peft-internal-testing/tiny-random-BertModel",
            "peft-internal-testing/tiny-random-OPTForCausalLM", "peft-internal-testing/tiny-random-gpt2",
            "peft-internal-testing/tiny-random-t5", "trl-internal-testing/tiny-Qwen2ForCausalLM-2.5",
            "trl-internal-testing/tiny-random-LlamaForCausalLM"))
