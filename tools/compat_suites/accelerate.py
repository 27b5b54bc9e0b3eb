"""Tests of Hugging Face Accelerate that need one or two GPUs."""
from .hugging_face import Suite

SUITE = Suite(
    "Hugging Face Accelerate",
    files=("test_accelerator.py", "test_big_modeling.py", "test_data_loader.py", "test_grad_sync.py", "test_hooks.py",
           "test_kwargs_handlers.py", "test_launch.py", "test_load_checkpoint_and_dispatch_with_broadcast.py",
           "test_memory_utils.py",
           "test_modeling_utils.py", "test_multidevice.py", "test_offload.py", "test_optimizer.py", "test_scheduler.py",
           "test_state_checkpointing.py", "test_utils.py", "deepspeed/test_deepspeed.py", "fsdp/test_fsdp.py"),
    models=("bert-base-cased", "bigscience/T0pp", "bigscience/bloom-560m", "gpt2",
            "hf-internal-testing/tiny-random-LlamaForCausalLM",
            "hf-internal-testing/tiny-random-gpt2", "sshleifer/tiny-gpt2"),
    folders=("examples",))
