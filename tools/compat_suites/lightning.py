"""PyTorch Lightning's tests that require CUDA and run in one process, on the simulator in place of
CUDA.

RUN_ONLY_CUDA_TESTS selects the tests that require one or two devices. Lightning skips tests that
must run alone, such as those that start a second process with the strategies ddp and fsdp.
"""
from . import session

TITLE = "PyTorch Lightning's tests"
MARK = "tests_pytorch/conftest.py"
can_resume = True

FILES = (
    "tests_pytorch/accelerators/test_gpu.py",
    "tests_pytorch/callbacks/test_device_stats_monitor.py",
    "tests_pytorch/callbacks/test_stochastic_weight_avg.py",
    "tests_pytorch/callbacks/test_weight_averaging.py",
    "tests_pytorch/core/test_lightning_module.py",
    "tests_pytorch/core/test_metric_result_integration.py",
    "tests_pytorch/loops/test_all.py",
    "tests_pytorch/models/test_amp.py",
    "tests_pytorch/models/test_gpu.py",
    "tests_pytorch/models/test_hooks.py",
    "tests_pytorch/models/test_torchscript.py",
    "tests_pytorch/plugins/precision/test_double.py",
    "tests_pytorch/profilers/test_profiler.py",
    "tests_pytorch/strategies/test_ddp.py",
    "tests_pytorch/strategies/test_single_device.py",
    "tests_pytorch/trainer/connectors/test_accelerator_connector.py",
    "tests_pytorch/trainer/logging_/test_train_loop_logging.py",
    "tests_pytorch/trainer/optimization/test_manual_optimization.py",
    "tests_pytorch/trainer/optimization/test_optimizers.py",
    "tests_pytorch/tuner/test_scale_batch_size.py",
    "tests_pytorch/utilities/test_dtype_device_mixin.py",
    "tests_pytorch/utilities/test_model_summary.py",
    "tests_pytorch/utilities/test_seed.py",
)


def run(options, excluded):
    """Run FILES from the source folder, Lightning's folder `tests`, and return their
    report.Results.
    """
    return session.run(options, session.selected(FILES, options.only), excluded, mark=MARK, prefix=session.in_place_of_cuda(options),
                       environment={"RUN_ONLY_CUDA_TESTS": "1"})
