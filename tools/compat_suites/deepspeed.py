"""DeepSpeed's unit tests on two simulated devices.

DeepSpeed uses AnyAccel's accelerator `sim` and AnyAccel's ops; its communication backend is
`staged`. FILES selects tests that exercise the accelerator. It omits tests of DeepSpeed's CUDA and
Triton kernels, tests of its launcher, and tests that load models from a hub.
"""
from . import session

TITLE = "DeepSpeed's unit tests"
MARK = "unit/common.py"
SECONDS_PER_TEST = 300  # most tests take 10 s, some 100 s on a busy machine
# Maximum number of parameter sets per test function. Running all of them would take hours.
CASES = 1
can_resume = True

FILES = (
    "unit/checkpoint/test_latest_checkpoint.py",
    "unit/checkpoint/test_lr_scheduler.py",
    "unit/checkpoint/test_other_optimizer.py",
    "unit/checkpoint/test_reshape_checkpoint.py",
    "unit/checkpoint/test_shared_weights.py",
    "unit/checkpoint/test_sparse.py",
    "unit/checkpoint/test_tag_validation.py",
    "unit/checkpoint/test_universal_checkpoint.py",
    "unit/checkpoint/test_zero_optimizer.py",
    "unit/comm/test_comms_logger.py",
    "unit/comm/test_dist.py",
    "unit/hybrid_engine/test_he_cuda_graph.py",
    "unit/linear/test_ctx.py",
    "unit/linear/test_linear.py",
    "unit/linear/test_quant_param.py",
    "unit/model_parallelism/test_tp_plan_e2e.py",
    "unit/ops/adagrad/test_cpu_adagrad.py",
    "unit/ops/adam/test_adamw.py",
    "unit/ops/adam/test_cpu_adam.py",
    "unit/ops/adam/test_zf_torch_adam.py",
    "unit/ops/lion/test_cpu_lion.py",
    "unit/ops/lion/test_lion.py",
    "unit/ops/muon/test_muon.py",
    "unit/pipe/test_pipe_module.py",
    "unit/profiling/flops_profiler/test_flops_profiler.py",
    "unit/runtime/activation_checkpointing/test_activation_checkpointing.py",
    "unit/runtime/activation_checkpointing/test_offload_activations.py",
    "unit/runtime/half_precision/test_dynamic_loss_scale.py",
    "unit/runtime/half_precision/test_fp16.py",
    "unit/runtime/half_precision/test_zero_optim_overflow.py",
    "unit/runtime/pipe/test_pipe.py",
    "unit/runtime/pipe/test_topology.py",
    "unit/runtime/utils/test_partition.py",
    "unit/runtime/zero/test_ignore_unused_parameters.py",
    "unit/runtime/zero/test_unwrap_model.py",
    "unit/runtime/zero/test_zero_allreduce_fetch_params.py",
    "unit/runtime/zero/test_zero_context.py",
    "unit/runtime/zero/test_zero_context_ancestry.py",
    "unit/runtime/zero/test_zero_context_return.py",
    "unit/runtime/zero/test_zero_dynamic_class.py",
    "unit/runtime/zero/test_zero_grad_clip.py",
    "unit/runtime/zero/test_zero_hook_attribute_delegation.py",
    "unit/runtime/zero/test_zero_late_module_attach.py",
    "unit/runtime/zero/test_zero_leaf_module.py",
    "unit/runtime/zero/test_zero_linear_direct_init.py",
    "unit/ulysses_alst/test_tiled_compute.py",
    "unit/v1/accelerator/test_accelerator.py",
    "unit/v1/half_precision/test_bf16.py",
    "unit/v1/half_precision/test_gradient_clipping_default.py",
    "unit/v1/half_precision/test_mixed_precision_dtype.py",
    "unit/v1/half_precision/test_with_autocast.py",
    "unit/v1/nvme/test_pinned_manager.py",
    "unit/v1/pin_memory/test_destroy_unpin.py",
    "unit/v1/pin_memory/test_pin_memory.py",
    "unit/v1/pin_memory/test_pin_memory_op.py",
    "unit/v1/zero/test_offload_states.py",
    "unit/v1/zero/test_overlap_comm_record_stream.py",
    "unit/v1/zero/test_stage2_flatten_on_gpu.py",
    "unit/v1/zero/test_zero.py",
    "unit/v1/zero/test_zero2_offload_multi_backward.py",
    "unit/v1/zero/test_zero_activation_checkpoint_lifecycle.py",
    "unit/v1/zero/test_zero_autocast.py",
    "unit/v1/zero/test_zero_coalesce_grad_reduction.py",
    "unit/v1/zero/test_zero_cpu_offload_grad_accum.py",
    "unit/v1/zero/test_zero_functorch_linear.py",
    "unit/v1/zero/test_zero_hook_count_regression.py",
    "unit/v1/zero/test_zero_init_pg_contradiction.py",
    "unit/v1/zero/test_zero_torch_func.py",
    "unit/v1/zero/test_zero_user_backward.py",
)

# DeepSpeed allows bfloat16 tests only on accelerators that it knows. This function, which is
# appended to the copy of unit/util.py, allows them.
BF16_CHECK = '''

def bf16_required_version_check(accelerator_check=True):
    return get_accelerator().is_bf16_supported()
'''


def adapt(tests):
    """Make the copied tests ask the accelerator whether it supports bfloat16."""
    with open(tests / "unit/util.py", "a") as file:
        file.write(BF16_CHECK)


def run(options, excluded):
    """Run FILES from the source folder, DeepSpeed's folder `tests`, and return their
    report.Results.
    """
    environment = {"DS_ACCELERATOR": "sim", "CUDA_VISIBLE_DEVICES": "0,1", "DS_UNITTEST_TIMEOUT": str(SECONDS_PER_TEST),
                   "DS_DISABLE_REUSE_DIST_ENV": "1", "COMPAT_CASES": str(CASES)}
    return session.run(options, session.selected(FILES, options.only), excluded, mark=MARK, site="site_deepspeed",
                       environment=environment, arguments=("-p", "compat_deepspeed"), adapt=adapt)
