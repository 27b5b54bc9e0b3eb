"""Tests of Hugging Face PEFT that run on the GPU. test_custom_models.py has 18000 tests; the suite
selects those that train one adapter and those that combine several."""
from .hugging_face import Suite

WHOLE = ("test_vera.py",)

SUITE = Suite(
    "Hugging Face PEFT",
    files={"test_custom_models.py": ("TestPeftCustomModel::test_training_custom_models", "TestMultipleActiveAdapters"),
           **dict.fromkeys(WHOLE, ())},
    models=("bert-base-uncased", "gpt2", "peft-internal-testing/opt-125m", "peft-internal-testing/tiny-random-OPTForCausalLM"))
